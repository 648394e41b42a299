//! A tiny HTTP server for one test: answers by a function, keeps what it was asked.

use std::sync::{Arc, Mutex};

use provider_clients::{Cloud, CloudOptions, Credential, Scope, Session, UserRef};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What came in.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn is(&self, method: &str, target: &str) -> bool {
        self.method == method && self.target == target
    }
}

/// What goes out.
pub enum Reply {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Take the request and close without a word.
    Lose,
    /// Take the request and never answer.
    Hang,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self::Answer { status, headers: vec![], body: body.to_string() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers by the function, which is given the server's own address and how often this very request (method and
    /// target) came before.
    pub async fn start(answer: impl Fn(&str, &Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::<Asked>::new()));
        let answer = Arc::new(answer);
        let task = tokio::spawn({
            let (url, asked) = (url.clone(), asked.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (url, asked, answer) = (url.clone(), asked.clone(), answer.clone());
                    tokio::spawn(async move {
                        serve(stream, |request| {
                            let mut log = asked.lock().expect("not poisoned");
                            let before = log.iter().filter(|it| it.is(&request.method, &request.target)).count();
                            log.push(request.clone());
                            answer(&url, request, before)
                        })
                        .await
                    });
                }
            }
        });
        Self { url, asked, task }
    }

    /// A cloud whose Keystone gives tokens `token-1`, `token-2` … and lists this server for all services; `answer` does the rest.
    pub async fn cloud(answer: impl Fn(&str, &Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |url, asked, before| match asked.is("POST", "/v3/auth/tokens") {
            true => Reply::json(201, token(url)).with("X-Subject-Token", format!("token-{}", before + 1)),
            false => answer(url, asked, before),
        })
        .await
    }

    pub fn asked(&self, method: &str, target: &str) -> Vec<Asked> {
        self.asked.lock().expect("not poisoned").iter().filter(|it| it.is(method, target)).cloned().collect()
    }

    pub fn options(&self) -> CloudOptions {
        CloudOptions::new(&self.url)
    }

    pub fn session(&self) -> Session {
        Cloud::new(self.options()).expect("good options").session(password())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn password() -> Credential {
    let user = UserRef { name: Some("magnum".into()), domain_id: Some("default".into()), ..UserRef::default() };
    Credential::Password { user, password: "hunter2-secret".into(), scope: Scope::Unscoped }
}

/// The body of a token with a catalogue.
pub fn token(url: &str) -> Value {
    let services = [
        ("orchestration", "/v1/p1"),
        ("compute", "/v2.1"),
        ("network", ""),
        ("image", ""),
        ("load-balancer", "/v2"),
        ("volumev3", "/v3/p1"),
    ];
    let catalog: Vec<Value> = services
        .iter()
        .map(|(kind, path)| {
            json!({"type": kind, "name": kind, "endpoints": [
                {"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": format!("{url}{path}")}]})
        })
        .collect();
    json!({"token": {
        "user": {"id": "u1", "name": "magnum", "domain": {"id": "default", "name": "Default"}},
        "project": {"id": "p1", "name": "service", "domain": {"id": "default", "name": "Default"}},
        "roles": [{"id": "r1", "name": "admin"}], "methods": ["password"],
        "expires_at": "2099-01-01T00:00:00.000000Z", "catalog": catalog}})
}

async fn serve(mut stream: TcpStream, answer: impl FnOnce(&Asked) -> Reply) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    match answer(&request) {
        Reply::Lose => {}
        // Ends when the client gives up.
        Reply::Hang => drop(stream.read(&mut [0; 1]).await),
        Reply::Answer { status, headers, body } => {
            let mut text = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
            for (name, value) in headers {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            text.push_str("\r\n");
            text.push_str(&body);
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> =
        lines.filter_map(|line| line.split_once(':')).map(|(k, v)| (k.to_lowercase(), v.trim().to_owned())).collect();
    let length = headers.iter().find(|(k, _)| k == "content-length").and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
    while bytes.len() < head_end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&bytes[head_end + 4..]).unwrap_or(Value::Null);
    Some(Asked { method, target, headers, body })
}
