//! The clock's twin: stands still until somebody moves it.

use tollgate_domain::ports::Clock;
use tollgate_domain::time::UtcMillis;

use super::World;

/// Port `Clock` over a [`World`].
#[derive(Clone)]
pub struct MemoryClock(pub(super) World);

impl Clock for MemoryClock {
    fn now(&self) -> UtcMillis {
        self.0.with(|state| state.now)
    }
}
