//! What the workspace's tests share: a world in memory, the auditor that knows what money must be, and traffic.
//!
//! Nothing here retries, sleeps or reads a clock: a test that fails, fails again with the same seed.

pub mod auditor;
pub mod expected;
pub mod input;
pub mod memory;
pub mod sent;
pub mod snapshot;
pub mod spelling;
pub mod strategies;
pub mod traffic;
