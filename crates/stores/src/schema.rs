//! The one schema file, applied.

use tollgate_domain::ports::PortResult;

use crate::clickhouse_error::decide;
use crate::rows::ClickHouseRows;

/// ClickHouse's tables, as SQL statements that are safe to apply again.
pub const SCHEMA: &str = include_str!("../../../localstack/schema.sql");

/// Statements of a schema file: separated by semicolons, comment lines left out.
fn statements(schema: &str) -> Vec<String> {
    let code: Vec<&str> = schema.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    code.join("\n").split(';').map(|statement| statement.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

/// Applies the schema to the connection's database, which must exist.
pub async fn apply(rows: &ClickHouseRows) -> PortResult<()> {
    for statement in statements(SCHEMA) {
        // `?` binds an argument in the crate's query language; a schema has none to bind.
        let query = rows.client().query(&statement.replace('?', "??"));
        query.execute().await.map_err(|error| decide("schema", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_three_statements_that_are_safe_to_repeat() {
        let statements = statements(SCHEMA);
        assert_eq!(statements.len(), 3);
        assert!(statements.iter().all(|statement| statement.contains("IF NOT EXISTS")));
    }
}
