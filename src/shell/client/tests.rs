use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kube::config::AuthInfo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};

use super::*;

const PATIENCE: Duration = Duration::from_millis(100);

fn request(method: &Method, uri: &str) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
}

/// A gate before something that answers after a while, with how often it was asked.
fn gate(
    fence: Option<Claim>,
    takes: Duration,
) -> (
    Gate<impl Service<Request<Body>, Response = Response<()>, Error = BoxError, Future: Send> + Clone + Send>,
    Arc<AtomicUsize>,
) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let inner = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(takes).await;
            Ok(Response::new(()))
        }
    });
    (Gate { inner, fence, patience: PATIENCE, member: "".into(), tell: None }, asked)
}

#[test]
fn what_changes_something_is_told_from_what_only_asks() {
    let base = "https://a:6443/prefix";
    for (method, path, expected) in [
        (Method::GET, "/api/v1/configmaps", false),
        (Method::HEAD, "/readyz", false),
        (Method::POST, "/api/v1/namespaces/a/configmaps", true),
        (Method::PUT, "/api/v1/namespaces/a/configmaps/b?fieldManager=tombolo", true),
        (Method::PATCH, "/api/v1/namespaces/a/configmaps/b?force=true", true),
        (Method::PATCH, "/api/v1/namespaces/a/configmaps/b?force=true&dryRun=All", false),
        (Method::DELETE, "/api/v1/namespaces/a/configmaps/b", true),
        (Method::DELETE, "/api/v1/namespaces/a/configmaps/b?x=dryRun=All", true),
        (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false),
        (Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", false),
        (Method::POST, "/apis/example.com/v1/namespaces/a/reviews", true),
        (Method::POST, "/api/v1/namespaces/a/serviceaccounts/b/token", true),
        (Method::from_bytes(b"PURGE").unwrap(), "/api", true),
    ] {
        assert_eq!(mutates(&request(&method, &format!("{base}{path}"))), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn who_does_not_lead_may_ask_but_changes_nothing() {
    let (gate, asked) = gate(Some(Claim::default()), Duration::ZERO);
    let refused = gate.clone().oneshot(request(&Method::PATCH, "/api")).await.unwrap_err();
    assert_eq!(refused.downcast_ref(), Some(&Fenced::Refused));
    assert_eq!(asked.load(Ordering::Relaxed), 0, "it must not have been sent");
    assert!(is_fenced(&kube::Error::Service(refused)));
    gate.oneshot(request(&Method::GET, "/api")).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn who_leads_may_change_things_and_so_may_who_has_no_fence() {
    for fence in [Some(Claim::always()), None] {
        let (gate, asked) = gate(fence, Duration::ZERO);
        gate.oneshot(request(&Method::DELETE, "/api")).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_request_that_was_made_while_leading_but_comes_up_later_is_not_sent() {
    let claim = Claim::always();
    let (mut gate, asked) = gate(Some(claim.clone()), Duration::ZERO);
    let waiting = gate.call(request(&Method::POST, "/api"));
    claim.give_up();
    let refused = waiting.await.unwrap_err();
    assert_eq!(refused.downcast_ref(), Some(&Fenced::Refused));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_request_that_is_under_way_when_the_lead_is_lost_is_cut_off() {
    let claim = Claim::always();
    let (mut gate, asked) = gate(Some(claim.clone()), Duration::from_secs(600));
    gate.patience = Duration::from_secs(600);
    let waiting = tokio::spawn(gate.oneshot(request(&Method::POST, "/api")));
    while asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    claim.give_up();
    let cut_off = waiting.await.unwrap().unwrap_err();
    assert_eq!(cut_off.downcast_ref(), Some(&Fenced::CutOff));
}

#[tokio::test]
async fn an_answer_that_does_not_begin_in_time_is_not_waited_for() {
    let (gate, _) = gate(None, Duration::from_secs(600));
    let late = gate.oneshot(request(&Method::GET, "/api")).await.unwrap_err();
    assert_eq!(late.downcast_ref(), Some(&NoAnswer::Head));
    assert!(timed_out(&kube::Error::Service(late)));
}

/// Answers each connection's first request with a version; gives back its head.
async fn server() -> (Uri, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (heads, seen) = mpsc::channel(9);
    tokio::spawn(async move {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            let head = head(&mut stream).await;
            let body = r#"{"major":"1","minor":"36","gitVersion":"v1.36.4","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            heads.send(head).await.unwrap();
        }
    });
    (url, seen)
}

async fn head(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap().into());
    }
    head.to_lowercase()
}

/// A proxy that does CONNECT for whatever comes first; gives back what it was asked.
async fn proxy_server() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (heads, seen) = mpsc::channel(9);
    tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let head = head(&mut stream).await;
        let target = head.split_whitespace().nth(1).unwrap().to_owned();
        heads.send(head).await.unwrap();
        let mut onward = TcpStream::connect(target).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut onward).await;
    });
    (address, seen)
}

fn config(url: Uri) -> Config {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = Config::new(url);
    config.auth_info = AuthInfo { token: Some("secret".to_owned().into()), ..AuthInfo::default() };
    config
}

#[tokio::test]
async fn a_client_says_who_it_is_and_shows_its_token() {
    let (url, mut seen) = server().await;
    client(&config(url), None).unwrap().apiserver_version().await.unwrap();
    let head = seen.recv().await.unwrap();
    assert!(head.contains(&format!("user-agent: tombolo/{}", env!("CARGO_PKG_VERSION"))), "{head}");
    assert!(head.contains("authorization: bearer secret\r\n"), "{head}");
}

#[tokio::test]
async fn a_proxy_on_the_way_is_used_with_its_password() {
    let ((url, _seen), (proxy, mut asked)) = (server().await, proxy_server().await);
    let target = url.authority().unwrap().to_string();
    let mut proxied = config(url);
    proxied.proxy_url = Some(format!("http://me:p%40ss@{proxy}").parse().unwrap());
    client(&proxied, None).unwrap().apiserver_version().await.unwrap();
    let head = asked.recv().await.unwrap();
    assert!(head.starts_with(&format!("connect {target} ")), "{head}");
    // "me:p@ss", in lower case as all of it here.
    assert!(head.contains("proxy-authorization: basic bwu6cebzcw==\r\n"), "{head}");
}

#[tokio::test]
async fn a_proxy_that_is_not_supported_is_refused_by_the_fields_name_and_without_its_password() {
    for url in ["socks5://me:hush@10.0.0.1:1080", "https://me:hush@10.0.0.1:3128"] {
        let mut config = config("https://127.0.0.1:6443".parse().unwrap());
        config.proxy_url = Some(url.parse().unwrap());
        let refused = format!("{:#}", client(&config, None).map(drop).unwrap_err());
        assert!(refused.contains("spec.proxyURL") && !refused.contains("hush"), "{refused}");
    }
}

#[test]
fn warnings_are_read_as_they_were_meant() {
    let quoted = "299 - \"there is no cluster \\\"x\\\" yet, see a\\\\b\"";
    assert_eq!(warning(quoted).as_deref(), Some("there is no cluster \"x\" yet, see a\\b"));
    assert_eq!(warning("299 - plain"), None);
}

#[tokio::test]
async fn a_command_is_told_what_admission_warns_of_when_something_is_written_and_of_no_question() {
    static TOLD: parking_lot::Mutex<Vec<String>> = parking_lot::Mutex::new(Vec::new());
    let inner = tower::service_fn(async |_: Request<Body>| {
        Ok::<_, BoxError>(Response::builder().header(WARNING, "299 - \"beware\"").body(()).unwrap())
    });
    let tell: Tell = |warning| TOLD.lock().push(warning.to_owned());
    let gate = Gate { inner, fence: None, patience: PATIENCE, member: "".into(), tell: Some(tell) };
    for (method, uri) in [(Method::GET, "/api"), (Method::PATCH, "/api?dryRun=All"), (Method::PATCH, "/api")]
    {
        gate.clone().oneshot(request(&method, uri)).await.unwrap();
    }
    assert_eq!(*TOLD.lock(), ["beware"]);
}
