//! Configuration from the environment: typed, and wrong all at once.

use std::collections::BTreeSet;
use std::fmt;

use secrecy::SecretString;
use tollgate_domain::plan::{Limit, PlanPolicy};
use tollgate_domain::space::SpaceId;

/// One variable that is missing or wrong. Values are not quoted: some are secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The variable.
    pub variable: String,
    /// What is wrong with it.
    pub problem: &'static str,
    /// What it should hold.
    pub expected: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; set it to {}", self.variable, self.problem, self.expected)
    }
}

/// Everything that is wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration has {} problem(s):\n  {}", .0.len(), lines(.0))]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

fn lines(problems: &[ConfigProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

/// Where variables come from.
type Lookup<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Reads variables and collects what is wrong with them.
///
/// A wrong variable yields the caller's stand-in so that reading goes on; [`Env::finish`] then refuses the whole.
pub struct Env<'a> {
    lookup: Lookup<'a>,
    problems: Vec<ConfigProblem>,
}

impl<'a> Env<'a> {
    /// Variables from `lookup`, such as `|name| std::env::var(name).ok()`.
    pub fn new(lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self { lookup: Box::new(lookup), problems: Vec::new() }
    }

    /// The process's own variables.
    pub fn of_process() -> Env<'static> {
        Env::new(|name| std::env::var(name).ok())
    }

    /// The variable's text, if it is set and not empty.
    pub fn text(&self, variable: &str) -> Option<String> {
        (self.lookup)(variable).filter(|text| !text.is_empty())
    }

    /// The variable's text, which must be set; empty after a problem.
    pub fn required(&mut self, variable: &str, expected: &str) -> String {
        self.text(variable).unwrap_or_else(|| {
            self.refuse(variable, "is not set", expected);
            String::new()
        })
    }

    /// The variable as `parse` reads it, or `default` when it is not set.
    pub fn parse_or<T>(
        &mut self,
        variable: &str,
        default: T,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        match self.text(variable).map(|text| parse(&text)) {
            None => default,
            Some(Some(value)) => value,
            Some(None) => {
                self.refuse(variable, "has a value that does not fit", expected);
                default
            }
        }
    }

    /// A whole number of `range`, counted in `unit`, or `default` when it is not set.
    pub fn integer_or(
        &mut self,
        variable: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
        unit: &str,
    ) -> u64 {
        let expected = format!("{unit} from {} to {}, a whole number", range.start(), range.end());
        self.parse_or(variable, default, &expected, |text| text.parse().ok().filter(|value| range.contains(value)))
    }

    /// Notes a problem that the caller found.
    pub fn refuse(&mut self, variable: &str, problem: &'static str, expected: &str) {
        self.problems.push(ConfigProblem { variable: variable.to_owned(), problem, expected: expected.to_owned() });
    }

    /// `value`, if nothing was wrong.
    pub fn finish<T>(self, value: T) -> Result<T, ConfigProblems> {
        if self.problems.is_empty() { Ok(value) } else { Err(ConfigProblems(self.problems)) }
    }
}

/// Where AWS is.
#[derive(Debug, Clone, Default)]
pub struct AwsConfig {
    /// One endpoint for all services: a local stack. Absent, the SDK's own rules hold (`AWS_ENDPOINT_URL`, the
    /// per-service variables, profiles, the region's public endpoints).
    pub endpoint_url: Option<String>,
    /// Endpoints of single services: each wins over the one for all.
    pub service_endpoints: ServiceEndpoints,
    /// Whether S3 is asked by path and not by host name: what emulators need.
    pub s3_path_style: bool,
}

/// Endpoints of single AWS services, where they differ from the others'.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceEndpoints {
    /// DynamoDB.
    pub dynamodb: Option<String>,
    /// SQS.
    pub sqs: Option<String>,
    /// S3.
    pub s3: Option<String>,
}

impl ServiceEndpoints {
    fn from_env(env: &Env<'_>) -> Self {
        Self {
            dynamodb: env.text("AWS_ENDPOINT_URL_DYNAMODB"),
            sqs: env.text("AWS_ENDPOINT_URL_SQS"),
            s3: env.text("AWS_ENDPOINT_URL_S3"),
        }
    }
}

/// Names of the deployed resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceNames {
    /// DynamoDB table `event_ledger`.
    pub ledger_table: String,
    /// DynamoDB table `free_usage`.
    pub meter_table: String,
    /// DynamoDB table `spaces`.
    pub spaces_table: String,
    /// DynamoDB table `api_keys`.
    pub keys_table: String,
    /// S3 bucket of the payloads.
    pub archive_bucket: String,
    /// URL of the SQS queue of accepted events.
    pub event_queue_url: String,
    /// URL of the SQS queue of messages that no worker can finish.
    pub dead_letter_queue_url: String,
}

impl ResourceNames {
    /// Each variable with the field it fills: what the binaries read and what the local stack hands them.
    pub fn variables(&mut self) -> [(&'static str, &mut String); 7] {
        [
            ("TOLLGATE_LEDGER_TABLE", &mut self.ledger_table),
            ("TOLLGATE_METER_TABLE", &mut self.meter_table),
            ("TOLLGATE_SPACES_TABLE", &mut self.spaces_table),
            ("TOLLGATE_KEYS_TABLE", &mut self.keys_table),
            ("TOLLGATE_ARCHIVE_BUCKET", &mut self.archive_bucket),
            ("TOLLGATE_EVENT_QUEUE_URL", &mut self.event_queue_url),
            ("TOLLGATE_DEAD_LETTER_QUEUE_URL", &mut self.dead_letter_queue_url),
        ]
    }
}

/// Names of the deployed resources that the front door uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntakeNames {
    /// DynamoDB table `event_ledger`.
    pub ledger_table: String,
    /// DynamoDB table `free_usage`.
    pub meter_table: String,
    /// DynamoDB table `spaces`.
    pub spaces_table: String,
    /// DynamoDB table `api_keys`.
    pub keys_table: String,
    /// DynamoDB table `command_receipts`.
    pub receipts_table: String,
    /// URL of the SQS queue of accepted events.
    pub event_queue_url: String,
}

impl IntakeNames {
    /// Each variable with the field it fills.
    pub fn variables(&mut self) -> [(&'static str, &mut String); 6] {
        [
            ("TOLLGATE_LEDGER_TABLE", &mut self.ledger_table),
            ("TOLLGATE_METER_TABLE", &mut self.meter_table),
            ("TOLLGATE_SPACES_TABLE", &mut self.spaces_table),
            ("TOLLGATE_KEYS_TABLE", &mut self.keys_table),
            ("TOLLGATE_RECEIPTS_TABLE", &mut self.receipts_table),
            ("TOLLGATE_EVENT_QUEUE_URL", &mut self.event_queue_url),
        ]
    }
}

/// Where ClickHouse is.
#[derive(Debug, Clone)]
pub struct ClickHouseConfig {
    /// URL of its HTTP interface.
    pub url: String,
    /// Database of the tables.
    pub database: String,
    /// User.
    pub user: String,
    /// The user's password; empty for none.
    pub password: SecretString,
}

/// How the worker takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Seconds that a receive waits for a message: 0 to 20.
    pub wait_s: i32,
    /// Seconds for which a received message is hidden from others, unless a heartbeat extends them.
    pub visibility_s: i32,
}

/// What a deployed resource's variable should hold.
const A_RESOURCE: &str = "the name or URL of the deployed resource (an output of the template)";

impl AwsConfig {
    fn from_env(env: &Env<'_>) -> Self {
        let service_endpoints = ServiceEndpoints::from_env(env);
        let s3_path_style = env.text("AWS_ENDPOINT_URL").is_some() || service_endpoints.s3.is_some();
        Self { endpoint_url: None, service_endpoints, s3_path_style }
    }
}

impl ClickHouseConfig {
    fn at(url: String, env: &Env<'_>) -> Self {
        Self {
            url,
            database: env.text("CLICKHOUSE_DATABASE").unwrap_or_else(|| "tollgate".to_owned()),
            user: env.text("CLICKHOUSE_USER").unwrap_or_else(|| "default".to_owned()),
            password: SecretString::from(env.text("CLICKHOUSE_PASSWORD").unwrap_or_default()),
        }
    }
}

fn plan_cache_ms(env: &mut Env<'_>) -> u64 {
    env.integer_or("TOLLGATE_PLAN_CACHE_MS", 5_000, 0..=60_000, "milliseconds")
}

/// What the front door's stores need to know.
#[derive(Debug, Clone)]
pub struct IntakeStoreConfig {
    /// Where AWS is.
    pub aws: AwsConfig,
    /// Names of the deployed resources.
    pub names: IntakeNames,
    /// Where ClickHouse is; absent, the usage of Plus spaces is not told.
    pub clickhouse: Option<ClickHouseConfig>,
    /// Milliseconds for which a space's plan may be remembered in order to accept; never to reject.
    pub plan_cache_ms: u64,
}

impl IntakeStoreConfig {
    /// Reads what the front door's stores need: neither archive nor dead letters, and ClickHouse only where
    /// `CLICKHOUSE_URL` is set.
    pub fn from_env(env: &mut Env<'_>) -> Self {
        let mut names = IntakeNames::default();
        for (variable, field) in names.variables() {
            *field = env.required(variable, A_RESOURCE);
        }
        Self {
            aws: AwsConfig::from_env(env),
            names,
            clickhouse: env.text("CLICKHOUSE_URL").map(|url| ClickHouseConfig::at(url, env)),
            plan_cache_ms: plan_cache_ms(env),
        }
    }
}

/// What the stores need to know.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Where AWS is.
    pub aws: AwsConfig,
    /// Names of the deployed resources.
    pub names: ResourceNames,
    /// Where ClickHouse is.
    pub clickhouse: ClickHouseConfig,
    /// How messages are taken.
    pub queue: QueueConfig,
    /// Milliseconds for which a space's plan may be remembered in order to accept; never to reject.
    pub plan_cache_ms: u64,
}

impl StoreConfig {
    /// Reads everything that the stores need.
    pub fn from_env(env: &mut Env<'_>) -> Self {
        let mut names = ResourceNames::default();
        for (variable, field) in names.variables() {
            *field = env.required(variable, A_RESOURCE);
        }
        let url =
            env.required("CLICKHOUSE_URL", "the URL of ClickHouse's HTTP interface, such as http://127.0.0.1:8123");
        Self {
            aws: AwsConfig::from_env(env),
            names,
            clickhouse: ClickHouseConfig::at(url, env),
            queue: QueueConfig {
                wait_s: narrow(env.integer_or("TOLLGATE_RECEIVE_WAIT_S", 20, 0..=20, "seconds")),
                visibility_s: narrow(env.integer_or("TOLLGATE_VISIBILITY_S", 60, 2..=43_200, "seconds")),
            },
            plan_cache_ms: plan_cache_ms(env),
        }
    }
}

/// A number that its range has already bounded.
fn narrow(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Reads what the deployment says about plans: `TOLLGATE_FREE_LIMIT`, `TOLLGATE_INTERNAL_SPACES`.
pub fn plan_policy(env: &mut Env<'_>) -> PlanPolicy {
    let default_free_limit = env.parse_or(
        "TOLLGATE_FREE_LIMIT",
        Limit::FREE_PLAN,
        "events a month of a free space without a limit of its own: a whole number, at least 1",
        |text| text.parse().ok().and_then(Limit::new),
    );
    let internal_spaces =
        env.parse_or("TOLLGATE_INTERNAL_SPACES", BTreeSet::new(), "names of spaces, separated by commas", |text| {
            text.split(',').map(|name| SpaceId::parse(name.trim()).ok()).collect()
        });
    PlanPolicy { internal_spaces, default_free_limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_come_at_once_and_quote_no_value() {
        let set =
            [("TOLLGATE_VISIBILITY_S", "s3cret"), ("TOLLGATE_FREE_LIMIT", "0"), ("TOLLGATE_INTERNAL_SPACES", "a,B")];
        let mut env = Env::new(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()));
        let config = (StoreConfig::from_env(&mut env), plan_policy(&mut env));
        let problems = env.finish(config).map(|_| ()).unwrap_err();
        let variables: Vec<&str> = problems.0.iter().map(|p| p.variable.as_str()).collect();
        assert_eq!(
            variables,
            [
                "TOLLGATE_LEDGER_TABLE",
                "TOLLGATE_METER_TABLE",
                "TOLLGATE_SPACES_TABLE",
                "TOLLGATE_KEYS_TABLE",
                "TOLLGATE_ARCHIVE_BUCKET",
                "TOLLGATE_EVENT_QUEUE_URL",
                "TOLLGATE_DEAD_LETTER_QUEUE_URL",
                "CLICKHOUSE_URL",
                "TOLLGATE_VISIBILITY_S",
                "TOLLGATE_FREE_LIMIT",
                "TOLLGATE_INTERNAL_SPACES",
            ]
        );
        assert!(!problems.to_string().contains("s3cret"));
    }

    #[test]
    fn the_front_door_needs_no_archive_no_dead_letters_and_no_clickhouse() {
        let read = |set: &dyn Fn(&str) -> Option<String>| {
            let mut env = Env::new(set);
            let config = IntakeStoreConfig::from_env(&mut env);
            env.finish(config)
        };
        let problems = read(&|_| None).unwrap_err();
        let missing: Vec<&str> = problems.0.iter().map(|problem| problem.variable.as_str()).collect();
        assert_eq!(missing, IntakeNames::default().variables().map(|(variable, _)| variable));
        let named = |name: &str| missing.contains(&name).then(|| "x".to_owned());
        assert!(read(&named).unwrap().clickhouse.is_none());
        let with_clickhouse =
            read(&|name| if name == "CLICKHOUSE_URL" { Some("http://127.0.0.1:1".to_owned()) } else { named(name) });
        assert_eq!(with_clickhouse.unwrap().clickhouse.unwrap().database, "tollgate");
    }
}
