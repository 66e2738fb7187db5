//! Where everything is: the environment first, then a running local stack.

use std::net::IpAddr;

use anyhow::{Context, bail};
use tollgate_stores::config::{AwsConfig, Env, StoreConfig};
use tollgate_stores::connect::Stores;

use crate::stack::{self, StackRecord};

/// Variables by which the AWS clients find another endpoint than the region's public one.
const ENDPOINT_VARIABLES: [&str; 4] =
    ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_S3"];

/// The environment, with the variables of a running local stack behind it.
pub struct Settings {
    name: String,
    stack: Option<StackRecord>,
}

impl Settings {
    /// Looks for the local stack called `name`; without one the environment must say everything.
    pub fn of_stack(name: &str) -> anyhow::Result<Self> {
        Ok(Self { name: name.to_owned(), stack: stack::running(name)? })
    }

    /// The settings that a stack's record gives.
    pub fn from_record(record: StackRecord) -> Self {
        Self { name: record.name.clone(), stack: Some(record) }
    }

    /// A reader of the settings: the environment wins over the stack.
    pub fn env(&self) -> Env<'_> {
        Env::new(|name| {
            let from_stack = || self.stack.as_ref().and_then(|stack| stack.variable(name));
            std::env::var(name).ok().filter(|text| !text.is_empty()).or_else(from_stack)
        })
    }

    /// Points the AWS clients at the stack, unless the environment points them elsewhere.
    pub fn point_at_stack(&self, aws: &mut AwsConfig) {
        if let Some(stack) = &self.stack
            && std::env::var_os("AWS_ENDPOINT_URL").is_none()
        {
            aws.endpoint_url = Some(stack.aws_endpoint_url.clone());
            aws.s3_path_style = true;
        }
    }

    /// The stores' settings.
    pub fn store_config(&self) -> anyhow::Result<StoreConfig> {
        let mut env = self.env();
        let config = StoreConfig::from_env(&mut env);
        let mut config = env.finish(config).with_context(|| self.what_is_missing())?;
        self.point_at_stack(&mut config.aws);
        Ok(config)
    }

    /// A word on the stack, for whoever finds variables missing.
    pub fn what_is_missing(&self) -> String {
        match &self.stack {
            Some(stack) => format!("settings, beside those of the local stack {:?}", stack.name),
            None => format!(
                "the local stack {0:?} is not up (start it with: tollgate up --stack {0}), and the environment does not say everything",
                self.name
            ),
        }
    }

    /// The stores.
    pub async fn connect(&self) -> anyhow::Result<Stores> {
        Ok(Stores::connect(&self.store_config()?).await?)
    }

    /// Refuses unless every engine is on this machine: for what must never touch a deployment.
    pub fn require_local(&self, what: &str) -> anyhow::Result<()> {
        let from_env = |name: &&str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let from_stack = self.stack.as_ref().map(|stack| stack.aws_endpoint_url.clone());
        let aws: Vec<String> = ENDPOINT_VARIABLES.iter().filter_map(from_env).chain(from_stack).collect();
        let clickhouse = self.env().text("CLICKHOUSE_URL");
        if aws.is_empty() || !aws.iter().chain(&clickhouse).all(|url| is_loopback(url)) {
            bail!("{what} is for the local stack alone, and not every endpoint is on this machine's loopback");
        }
        Ok(())
    }
}

/// Whether the URL's host is this machine's loopback. One with user information is not taken for one.
fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let Some(authority) = uri.authority().filter(|authority| !authority.as_str().contains('@')) else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    uri.scheme().is_some() && (host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_local() {
        for url in ["http://127.0.0.1:4566", "http://localhost/x", "http://[::1]:1/", "http://127.9.9.9"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "https://dynamodb.us-east-1.amazonaws.com",
            "http://127.0.0.1.evil.example",
            "http://10.0.0.1",
            "",
            "127.0.0.1",
            "http://user@127.0.0.1@evil.example",
            "http://127.0.0.1:1@192.0.2.1",
            "http://user@127.0.0.1",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
