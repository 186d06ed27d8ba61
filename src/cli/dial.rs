//! `tombolo listen` and `tombolo dial`: what the pods of `tombolo check --connectivity` run. No user has to know of them.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    diagnose::connectivity::outcome::{Outcome, Peer},
    shell::listen,
};

/// As much as a listener reads of anybody.
const WORD: usize = 64;
/// What is said to a listener.
const HELLO: &[u8] = b"tombolo?";
/// How long a listener bears with somebody.
const PATIENCE: Duration = Duration::from_secs(5);
/// As often a word is said by UDP, which may get lost.
const TRIES: u32 = 3;

/// Flags of `tombolo listen`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct ListenArgs {
    /// What is answered: the name of this member.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Where it listens, by TCP and UDP.
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// How long.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    seconds: u64,
}

/// Flags of `tombolo dial`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct DialArgs {
    /// Who is dialled, and where.
    #[arg(long, value_name = "NAME=ADDRESS:PORT", required = true)]
    to: Vec<Peer>,
    /// How long an answer may take.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    timeout: u64,
    /// The file that the result is written to, beside standard output.
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
}

// === impl ListenArgs ===

impl ListenArgs {
    /// Answers whoever asks, until told to stop or the time is over.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let all = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.port);
        let tcp = listen::bind(all, TcpListener::bind::<SocketAddr>).await;
        let tcp = tcp.with_context(|| format!("failed to listen on {}/TCP", self.port))?;
        let udp = listen::bind(all, UdpSocket::bind::<SocketAddr>).await;
        let udp = udp.with_context(|| format!("failed to listen on {}/UDP", self.port))?;
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(Duration::from_secs(self.seconds)) => {}
            () = answer_tcp(&tcp, &self.name) => {}
            () = answer_udp(&udp, &self.name) => {}
        }
        Ok(())
    }
}

async fn answer_tcp(listener: &TcpListener, name: &str) {
    loop {
        // One that hung up before it was accepted is none.
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let name = name.to_owned();
        // A task each, bounded in time: one that says nothing keeps nobody waiting.
        tokio::spawn(async move {
            let talk = async {
                let mut word = [0; WORD];
                if stream.read(&mut word).await.is_ok_and(|length| word[..length] == *HELLO) {
                    let _sent = stream.write_all(name.as_bytes()).await;
                }
            };
            let _ended = timeout(PATIENCE, talk).await;
        });
    }
}

async fn answer_udp(socket: &UdpSocket, name: &str) {
    let mut word = [0; WORD];
    loop {
        if let Ok((length, from)) = socket.recv_from(&mut word).await
            && word[..length] == *HELLO
        {
            let _sent = socket.send_to(name.as_bytes(), from).await;
        }
    }
}

// === impl DialArgs ===

impl DialArgs {
    /// Dials all at once, and says what came of it. Fails only if that cannot be said.
    pub async fn run(self) -> Result<()> {
        let patience = Duration::from_secs(self.timeout);
        let dialled = self.to.iter().map(async |peer| {
            let (tcp, udp) = tokio::join!(by_tcp(peer, patience), by_udp(peer, patience));
            Outcome { tcp, udp }.line(peer)
        });
        let text = join_all(dialled).await.join("\n") + "\n";
        if let Some(file) = &self.result {
            fs::write(file, &text).with_context(|| format!("failed to write {}", file.display()))?;
        }
        super::paint::print(&text).map(drop)
    }
}

async fn by_tcp(peer: &Peer, patience: Duration) -> Result<Duration, String> {
    let began = Instant::now();
    let talk = async {
        let mut stream = TcpStream::connect(peer.address).await?;
        let took = began.elapsed();
        stream.write_all(HELLO).await?;
        let mut answer = Vec::new();
        stream.take(WORD as u64).read_to_end(&mut answer).await?;
        std::io::Result::Ok((took, answer))
    };
    match timeout(patience, talk).await {
        Ok(Ok((took, answer))) => is(peer, &answer).map(|()| took),
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err(format!("no answer within {} s", patience.as_secs())),
    }
}

async fn by_udp(peer: &Peer, patience: Duration) -> Result<Duration, String> {
    let from: SocketAddr = if peer.address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let talk = async |answer: &mut [u8]| {
        let socket = UdpSocket::bind(from).await?;
        socket.connect(peer.address).await?;
        socket.send(HELLO).await?;
        socket.recv(answer).await
    };
    let mut answer = [0; WORD];
    for _ in 0..TRIES {
        let began = Instant::now();
        match timeout(patience / TRIES, talk(&mut answer)).await {
            Ok(Ok(length)) => return is(peer, &answer[..length]).map(|()| began.elapsed()),
            Ok(Err(e)) => return Err(e.to_string()),
            // It may have got lost.
            Err(_) => {}
        }
    }
    Err(format!("no answer within {} s", patience.as_secs()))
}

/// Whether it is the one that was meant who answers: pod ranges may overlap.
fn is(peer: &Peer, answer: &[u8]) -> Result<(), String> {
    let name = String::from_utf8_lossy(answer);
    if name == peer.name {
        return Ok(());
    }
    Err(format!("it is {name:?} that answers there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listening(name: &'static str) -> SocketAddr {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(at).await.unwrap();
        tokio::spawn(async move { tokio::join!(answer_tcp(&tcp, name), answer_udp(&udp, name)) });
        at
    }

    #[tokio::test]
    async fn a_listener_answers_with_its_name_and_another_one_is_told_apart() {
        let address = listening("member2").await;
        let patience = Duration::from_secs(5);
        let peer = Peer { name: "member2".to_owned(), address };
        assert!(by_tcp(&peer, patience).await.is_ok());
        assert!(by_udp(&peer, patience).await.is_ok());
        let other = Peer { name: "member3".to_owned(), address };
        assert_eq!(by_tcp(&other, patience).await.unwrap_err(), "it is \"member2\" that answers there");
    }

    #[tokio::test]
    async fn where_nobody_listens_the_reason_is_told() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let peer = Peer { name: "member2".to_owned(), address: free };
        let said = by_tcp(&peer, Duration::from_secs(5)).await.unwrap_err();
        assert!(said.contains("refused"), "{said}");
    }
}
