//! `tollgate up`, `tollgate down`.

use std::collections::BTreeMap;

use crate::command::Ended;
use crate::output::{json, line, note};
use crate::stack::{self, StackRecord, VARIABLE_NAMES};

pub(crate) fn up(name: &str, as_json: bool) -> anyhow::Result<Ended> {
    let record = stack::up(name, None)?;
    if as_json {
        json(&variables(&record))?;
    } else {
        for (variable, value) in variables(&record) {
            line(format!("{variable}={value}"));
        }
        note(format!(
            "The stack {name:?} is up. Other commands find it by --stack {name}; stop it with: tollgate down --stack {name}"
        ));
    }
    Ok(Ended::Well)
}

pub(crate) fn down(name: &str, wipe: bool) -> anyhow::Result<Ended> {
    stack::down(name, wipe)?;
    Ok(Ended::Well)
}

/// What the binaries would read from the environment to work on this stack.
fn variables(record: &StackRecord) -> BTreeMap<&'static str, String> {
    let named = VARIABLE_NAMES.iter().filter_map(|name| Some((*name, record.variable(name)?)));
    [("AWS_ENDPOINT_URL", record.aws_endpoint_url.clone())].into_iter().chain(named).collect()
}
