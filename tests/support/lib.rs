//! What the workspace's tests share: a world in memory, the auditor that knows what money must be, and traffic.
//!
//! Nothing here retries, sleeps or reads a clock: a test that fails, fails again with the same seed.

#[path = "../accord/mod.rs"]
pub mod accord;
pub mod auditor;
#[path = "../chaos/mod.rs"]
pub mod chaos;
#[path = "../clients/mod.rs"]
pub mod clients;
pub mod expected;
#[path = "../faults/mod.rs"]
pub mod faults;
pub mod input;
pub mod live;
#[path = "../matrix/mod.rs"]
pub mod matrix;
pub mod memory;
#[path = "../model/mod.rs"]
pub mod model;
#[path = "../fuzz/src/lib.rs"]
pub mod properties;
pub mod sent;
#[path = "../simulation/mod.rs"]
pub mod simulation;
pub mod snapshot;
pub mod spelling;
pub mod strategies;
pub mod tenants;
pub mod traffic;
