//! A server on loopback that answers as DynamoDB would: for what the emulator cannot be made to say.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What was asked: the operation and its JSON.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) operation: String,
    pub(crate) body: Value,
}

/// What is answered: a status and its JSON.
pub(crate) type Answer = fn(operation: &str) -> (u16, &'static str);

/// The server, until it is dropped with its runtime.
pub(crate) struct Loopback {
    pub(crate) endpoint_url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Loopback {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint_url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen), answer));
            }
        });
        Self { endpoint_url, requests }
    }

    /// Everything that was asked, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> aws_sdk_dynamodb::Client {
        let settings = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(&self.endpoint_url)
            .credentials_provider(Credentials::new("test", "test", None, None, "loopback"));
        aws_sdk_dynamodb::Client::from_conf(settings.build())
    }
}

/// One request a connection.
async fn serve(stream: TcpStream, seen: Arc<Mutex<Vec<Request>>>, answer: Answer) {
    let mut stream = BufReader::new(stream);
    let (mut operation, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or_default() == 0 {
            return;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "x-amz-target" => operation = value.rsplit('.').next().unwrap_or_default().to_owned(),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let (status, text) = answer(&operation);
    seen.lock().unwrap().push(Request { operation, body: serde_json::from_slice(&body).unwrap() });
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(format!("{head}{text}").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}
