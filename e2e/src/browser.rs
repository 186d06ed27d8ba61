//! A real browser: headless Chromium, driven by its DevTools protocol over two pipes.
//!
//! [`Browser::start`] starts one with a profile of its own, which ends with it; [`Browser::open`] gives back a [`Tab`]. What a page
//! asks for, and what it complains of, is remembered.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe,
    sync::oneshot,
};

use crate::{
    packages,
    process::{self, Process, tail},
    wait::until,
};

/// What one answer may take, on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(60);

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A running browser.
#[derive(Debug)]
pub struct Browser {
    wire: Arc<Wire>,
    // In this order: the process ends before its folder goes.
    _process: Process,
    _folder: Folder,
}

/// A page in a browser.
#[derive(Debug)]
pub struct Tab {
    wire: Arc<Wire>,
    session: String,
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// How wide the window is.
    pub width: u32,
    /// How high.
    pub height: u32,
    /// Whether its user prefers dark colours.
    pub dark: bool,
}

/// The way to the browser.
#[derive(Debug)]
struct Wire {
    sender: tokio::sync::Mutex<pipe::Sender>,
    heard: Mutex<Heard>,
    log: PathBuf,
}

#[derive(Debug, Default)]
struct Heard {
    asked: u64,
    answers: BTreeMap<u64, oneshot::Sender<Value>>,
    events: Vec<Value>,
}

/// A folder that goes with its owner.
#[derive(Debug)]
struct Folder(PathBuf);

// === impl Folder ===

impl Drop for Folder {
    fn drop(&mut self) {
        // The browser has ended, but processes that it started may go on writing for a moment.
        for _ in 0..100 {
            let removed = fs::remove_dir_all(&self.0);
            if removed.is_ok() || !self.0.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

// === impl Look ===

impl Default for Look {
    fn default() -> Self {
        Self { width: 1440, height: 900, dark: false }
    }
}

// === impl Browser ===

impl Browser {
    /// Starts a browser.
    pub async fn start() -> Result<Self> {
        let program = tokio::task::spawn_blocking(packages::browser).await??;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tombolo-browser-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let folder = Folder(folder);
        let (to, from) = (folder.0.join("to"), folder.0.join("from"));
        for path in [&to, &from] {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .with_context(|| format!("failed to create {}", path.display()))?;
        }
        // Open for both, so that neither side waits for the other.
        let sender = pipe::OpenOptions::new().read_write(true).open_sender(&to)?;
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(&from)?;
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<\"$TO\" 4>\"$FROM\""]).arg(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
        command.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
        ]);
        command.arg("--remote-debugging-pipe").arg(format!("--user-data-dir={}", folder.0.display()));
        command.env("TO", &to).env("FROM", &from).env("HOME", &folder.0);
        let log = folder.0.join("log");
        let process = process::spawn("chromium", &log, command)?;
        let wire = Arc::new(Wire { sender: tokio::sync::Mutex::new(sender), heard: Mutex::default(), log });
        tokio::spawn(listen(Arc::downgrade(&wire), receiver));
        let this = Self { wire, _process: process, _folder: folder };
        this.wire.ask(None, "Browser.getVersion", json!({})).await?;
        Ok(this)
    }

    /// Opens a page.
    pub async fn open(&self, url: &str, look: Look) -> Result<Tab> {
        let made = self.wire.ask(None, "Target.createTarget", json!({ "url": "about:blank" })).await?;
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = self.wire.ask(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().context("a session has an id")?.to_owned();
        let tab = Tab { wire: self.wire.clone(), session };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            tab.ask(&format!("{domain}.enable"), json!({})).await?;
        }
        tab.look(look).await?;
        tab.go(url).await?;
        Ok(tab)
    }
}

// === impl Wire ===

impl Wire {
    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value> {
        let (reply, answer) = oneshot::channel();
        let id = {
            let mut heard = self.heard();
            heard.asked += 1;
            let id = heard.asked;
            heard.answers.insert(id, reply);
            id
        };
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.sender.lock().await.write_all(&text).await?;
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let answer = answer
            .with_context(|| format!("the browser does not answer {method}:\n{}", tail(&self.log, 20)))??;
        match answer.get("error") {
            None => Ok(answer["result"].clone()),
            Some(error) => bail!("{method}: {error}"),
        }
    }
}

/// Takes in what the browser says, each ended by a zero, as long as somebody has the wire.
async fn listen(wire: std::sync::Weak<Wire>, receiver: pipe::Receiver) {
    let mut receiver = BufReader::new(receiver);
    let mut text = Vec::new();
    while receiver.read_until(0, &mut text).await.is_ok_and(|read| read > 0) {
        text.pop();
        let (Some(wire), Ok(message)) = (wire.upgrade(), serde_json::from_slice::<Value>(&text)) else {
            return;
        };
        text.clear();
        let mut heard = wire.heard();
        match message["id"].as_u64() {
            Some(id) => {
                if let Some(reply) = heard.answers.remove(&id) {
                    // Whoever asked may have given up.
                    let _ = reply.send(message);
                }
            }
            None => heard.events.push(message),
        }
    }
}

// === impl Tab ===

impl Tab {
    async fn ask(&self, method: &str, params: Value) -> Result<Value> {
        self.wire.ask(Some(&self.session), method, params).await
    }

    /// Goes to another page.
    pub async fn go(&self, url: &str) -> Result<()> {
        let gone = self.ask("Page.navigate", json!({ "url": url })).await?;
        ensure!(gone.get("errorText").is_none(), "{url}: {gone}");
        Ok(())
    }

    /// Looks at the page in another way.
    pub async fn look(&self, look: Look) -> Result<()> {
        let Look { width, height, dark } = look;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size).await?;
        let value = if dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": value },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features })).await.map(drop)
    }

    /// What an expression is in the page.
    pub async fn value(&self, expression: &str) -> Result<Value> {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.ask("Runtime.evaluate", asked).await?;
        match found.get("exceptionDetails") {
            None => Ok(found["result"]["value"].clone()),
            Some(thrown) => Err(anyhow!("{expression}: {thrown}")),
        }
    }

    /// Waits until an expression is true in the page.
    pub async fn until(&self, expression: &str, patience: Duration) -> Result<()> {
        until(&format!("in the page: {expression}"), patience, async || {
            let found = self.value(expression).await?;
            ensure!(found == true, "it is {found}; the page says {}", self.text().await?);
            Ok(())
        })
        .await
    }

    /// All text of the page.
    pub async fn text(&self) -> Result<String> {
        Ok(self.value("document.body.innerText").await?.as_str().unwrap_or_default().to_owned())
    }

    /// Presses a key as a user does, such as `Tab`, `ArrowDown` or `/`.
    pub async fn press(&self, key: &str) -> Result<()> {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "Escape" => (27, None),
            "End" => (35, None),
            "Home" => (36, None),
            "ArrowLeft" => (37, None),
            "ArrowUp" => (38, None),
            "ArrowRight" => (39, None),
            "ArrowDown" => (40, None),
            other => (0, Some(other)),
        };
        let mut event = json!({ "key": key, "code": key, "windowsVirtualKeyCode": code });
        event["type"] = if text.is_some() { "keyDown" } else { "rawKeyDown" }.into();
        if let Some(text) = text {
            event["text"] = text.into();
        }
        self.ask("Input.dispatchKeyEvent", event).await?;
        let event = json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code });
        self.ask("Input.dispatchKeyEvent", event).await.map(drop)
    }

    /// Types a text into what has the focus.
    pub async fn type_text(&self, text: &str) -> Result<()> {
        self.ask("Input.insertText", json!({ "text": text })).await.map(drop)
    }

    /// Keeps a picture of the page.
    pub async fn picture(&self, path: &Path) -> Result<Vec<u8>> {
        let taken = self.ask("Page.captureScreenshot", json!({ "format": "png" })).await?;
        let picture = BASE64_STANDARD.decode(taken["data"].as_str().context("a picture has data")?)?;
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(path, &picture).with_context(|| format!("failed to write {}", path.display()))?;
        Ok(picture)
    }

    fn events(&self, method: &str) -> Vec<Value> {
        let heard = self.wire.heard();
        let of_tab = heard.events.iter().filter(|event| event["sessionId"] == self.session.as_str());
        of_tab.filter(|event| event["method"] == method).map(|event| event["params"].clone()).collect()
    }

    /// The addresses that the page has asked for.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events("Network.requestWillBeSent").into_iter();
        sent.map(|event| event["request"]["url"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// What the page complained of: exceptions, errors, and what its policy forbade.
    pub fn complaints(&self) -> Vec<String> {
        let thrown = self.events("Runtime.exceptionThrown");
        let logged = self.events("Log.entryAdded");
        let logged = logged.into_iter().filter(|event| event["entry"]["level"] == "error");
        thrown.into_iter().chain(logged).map(|event| event.to_string()).collect()
    }
}
