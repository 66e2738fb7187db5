//! Every route: the router serves this list, and the OpenAPI document describes it.

use http::Method;
use tollgate_domain::key::Scope;

/// A route. Each has a path of its own and one method; `GET` is also served as `HEAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    SendEvents,
    EventStatus,
    Usage,
    Keys,
    Health,
    Readiness,
    Document,
}

impl Route {
    pub(crate) const ALL: [Self; 7] =
        [Self::SendEvents, Self::EventStatus, Self::Usage, Self::Keys, Self::Health, Self::Readiness, Self::Document];

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::SendEvents => "/v1/events",
            Self::EventStatus => "/v1/events/{id}",
            Self::Usage => "/v1/usage",
            Self::Keys => "/v1/keys",
            Self::Health => "/healthz",
            Self::Readiness => "/readyz",
            Self::Document => "/openapi.json",
        }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::SendEvents => Method::POST,
            _ => Method::GET,
        }
    }

    /// What a caller's key must be allowed; nothing where no key is asked for.
    pub(crate) const fn scope(self) -> Option<Scope> {
        match self {
            Self::SendEvents => Some(Scope::Ingest),
            Self::EventStatus | Self::Usage => Some(Scope::Read),
            Self::Keys => Some(Scope::Admin),
            Self::Health | Self::Readiness | Self::Document => None,
        }
    }
}
