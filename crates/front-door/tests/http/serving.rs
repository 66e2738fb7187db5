//! The plain server, over a real socket.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tollgate_front_door::config::{FrontDoorConfig, ServerConfig};
use tollgate_front_door::serve::serve_local;

use crate::fakes::{EVENT, Mood, World, key};

pub(crate) async fn start(
    world: &World,
    server: ServerConfig,
) -> (std::net::SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    start_as(world, FrontDoorConfig::default(), server).await
}

pub(crate) async fn start_as(
    world: &World,
    config: FrontDoorConfig,
    server: ServerConfig,
) -> (std::net::SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let (router, token) = (world.router(config), shutdown.clone());
    let served = tokio::spawn(async move { serve_local(listener, router, &server, token).await });
    (address, shutdown, served)
}

fn request() -> String {
    let (key, length) = (key(7), EVENT.len());
    format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\r\n{EVENT}",
        key.expose()
    )
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4_096];
    let read = stream.read(&mut bytes).await.unwrap();
    String::from_utf8(bytes[..read].to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_is_served_and_one_in_flight_survives_the_stop() {
    let world = World::new();
    let (address, shutdown, served) = start(&world, ServerConfig::default()).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(read_some(&mut idle).await.starts_with("HTTP/1.1 200"));

    let mut busy = TcpStream::connect(address).await.unwrap();
    let request = request();
    let (head, tail) = request.split_at(request.len() - 5);
    busy.write_all(head.as_bytes()).await.unwrap();
    while world.with(|state| state.key_reads) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    tokio::time::sleep(Duration::from_millis(20)).await;
    busy.write_all(tail.as_bytes()).await.unwrap();
    assert!(read_some(&mut busy).await.starts_with("HTTP/1.1 202"));
    served.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn a_head_that_never_ends_and_a_request_that_never_finishes_hold_nothing_up() {
    let world = World::new();
    world.with(|state| state.queue_mood = Mood::Stalled);
    let limits = ServerConfig { header_timeout: Duration::from_millis(100), drain_timeout: Duration::from_millis(100) };
    let (address, shutdown, served) = start(&world, limits).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"POST /v1/ev").await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(5), read_some(&mut slow)).await.unwrap();
    assert!(closed.is_empty() || closed.starts_with("HTTP/1.1 408"), "{closed}");

    let mut stuck = TcpStream::connect(address).await.unwrap();
    stuck.write_all(request().as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(2), served).await.unwrap().unwrap();
}

/// The head of a call with these other headers.
fn head(others: &str) -> String {
    format!("POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{others}\r\n", key(7).expose())
}

/// Everything that comes until the server closes the connection; fails when it is reset.
async fn answer_to_the_end(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

#[tokio::test]
async fn a_body_whose_end_is_in_doubt_is_the_last_of_its_connection() {
    let world = World::new();
    let (address, ..) = start(&world, ServerConfig::default()).await;
    let chunks = format!("{:x}\r\n{EVENT}\r\n0\r\n\r\n", EVENT.len());
    for (others, status) in [
        ("transfer-encoding: chunked\r\n", None),
        ("transfer-encoding: gzip, chunked\r\n", Some("400")),
        ("transfer-encoding: chunked, gzip\r\n", Some("400")),
        ("transfer-encoding: identity\r\n", Some("400")),
        // `chunked` counts, and what follows is nobody's request.
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", Some("202")),
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n", Some("202")),
        ("content-length: 5\r\ncontent-length: 6\r\n", Some("400")),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let next = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{}{chunks}{next}", head(others)).as_bytes()).await.unwrap();
        let answers = answer_to_the_end(&mut stream).await;
        let statuses: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(statuses, status.map_or(vec!["202", "200"], |status| vec![status]), "{others}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_told_so_and_not_cut_off() {
    let world = World::new();
    let (address, ..) = start(&world, ServerConfig::default()).await;
    let body = vec![b' '; 4 * 1024 * 1024];
    let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    for (others, body) in [
        (format!("content-length: {}\r\n", body.len()), &body),
        ("transfer-encoding: chunked\r\n".to_owned(), &chunked),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head(&others).as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        let answer = answer_to_the_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}
