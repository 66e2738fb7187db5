//! Two answers as texts that are equal when they mean the same.

use std::fmt::Debug;
use std::future::Future;

use futures_util::future::{BoxFuture, FutureExt};
use tollgate_domain::ports::{InsertError, PortError};

/// Awaits both, one after the other, and puts both answers in words. Boxed: a client's future takes many kilobytes, and
/// every operation's would stand in its caller's.
pub(super) fn on_both<'a, T: Debug, E: Kind>(
    in_memory: impl Future<Output = Result<T, E>> + Send + 'a,
    on_engine: impl Future<Output = Result<T, E>> + Send + 'a,
) -> BoxFuture<'a, (String, String)> {
    async move {
        let in_memory = answer(&in_memory.await);
        (in_memory, answer(&on_engine.await))
    }
    .boxed()
}

/// An answer in words: values whole, errors by their kind, since their texts name an engine's own codes.
pub(super) fn answer<T: Debug, E: Kind>(result: &Result<T, E>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error: {}", error.kind()),
    }
}

/// What an error asks of its caller.
pub(super) trait Kind {
    fn kind(&self) -> &'static str;
}

impl Kind for PortError {
    fn kind(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown",
            Self::NotNow(_) => "not now",
            Self::Contended(_) => "contended",
            Self::Broken(_) => "broken",
        }
    }
}

impl Kind for InsertError {
    fn kind(&self) -> &'static str {
        match self {
            Self::Poison { .. } => "poison",
            Self::Port(error) => error.kind(),
        }
    }
}
