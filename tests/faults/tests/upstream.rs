//! An upstream that answers everything alike and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::faults::Upstreams;

/// An upstream that answers everything alike.
pub(super) struct Upstream {
    pub(super) places: Upstreams,
    requests: Arc<AtomicU64>,
}

impl Upstream {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    let service = service_fn(|request: Request<Incoming>| {
                        let counted = Arc::clone(&counted);
                        async move {
                            request.into_body().collect().await?;
                            counted.fetch_add(1, Ordering::SeqCst);
                            Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from_static(b"applied"))))
                        }
                    });
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { places: Upstreams { aws: address.clone(), clickhouse: address }, requests }
    }

    /// Requests that arrived.
    pub(super) fn applied(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}
