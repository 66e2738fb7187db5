//! A ClickHouse database of a test's own: for tests that alter or break the tables.

use tollgate_stores::config::{ClickHouseConfig, StoreConfig};
use tollgate_stores::rows::ClickHouseRows;
use tollgate_stores::schema;

use crate::engines::{config, unique};

/// A database with the schema applied.
pub(crate) struct Database {
    name: String,
    /// A connection of its own: what it does leaves the stores' memory of the tables alone.
    pub(crate) operator: ClickHouseRows,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let name = unique("db").replace('-', "_");
        let shared = ClickHouseRows::connect(&config().clickhouse).unwrap();
        shared.client().query(&format!("CREATE DATABASE {name}")).execute().await.unwrap();
        let clickhouse = ClickHouseConfig { database: name.clone(), ..config().clickhouse };
        let operator = ClickHouseRows::connect(&clickhouse).unwrap();
        schema::apply(&operator).await.unwrap();
        Self { name, operator }
    }

    /// The engines, with this database in the place of the shared one.
    pub(crate) fn config(&self) -> StoreConfig {
        let mut config = config();
        config.clickhouse.database.clone_from(&self.name);
        config
    }

    /// Runs a statement in this database.
    pub(crate) async fn execute(&self, statement: &str) {
        self.operator.client().query(statement).execute().await.unwrap();
    }

    /// Removes it. A test that fails leaves its database behind, to be looked at.
    pub(crate) async fn drop(self) {
        self.execute(&format!("DROP DATABASE {}", self.name)).await;
    }
}
