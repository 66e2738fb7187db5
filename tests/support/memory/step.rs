//! How an effect is performed: the suspension before it, then its fault, then the effect itself, atomically.

use std::future::{pending, poll_fn};
use std::task::Poll;

use tollgate_domain::ports::PortError;

use super::{Call, Fault, State, World};

/// How much of an effect happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Whole,
    Partly,
    ProbeLags,
}

impl World {
    /// Performs an effect that happens as a whole or not at all.
    pub(super) async fn effect<T, E: From<PortError>>(
        &self,
        call: impl Into<Call> + Send,
        apply: impl FnOnce(&mut State) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        self.effect_in_manner(call, |state, _| apply(state)).await
    }

    /// Performs an effect that can also happen in another manner than as a whole.
    pub(super) async fn effect_in_manner<T, E: From<PortError>>(
        &self,
        call: impl Into<Call> + Send,
        apply: impl FnOnce(&mut State, Manner) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let contended = || Err(PortError::Contended("somebody else is at the same item".to_owned()).into());
        self.effect_or_contended(call, contended, apply).await
    }

    /// Performs an effect that has a form of its own for *contended*.
    pub(super) async fn effect_or_contended<T, E: From<PortError>>(
        &self,
        call: impl Into<Call> + Send,
        contended: impl FnOnce() -> Result<T, E> + Send,
        apply: impl FnOnce(&mut State, Manner) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        match self.turn(call.into()).await {
            None => self.with(|state| apply(state, Manner::Whole)),
            Some(Fault::Partly) => self.with(|state| apply(state, Manner::Partly)),
            Some(Fault::ProbeLags) => self.with(|state| apply(state, Manner::ProbeLags)),
            Some(Fault::NotApplied(error)) => Err(error.into()),
            Some(Fault::Contended) => contended(),
            Some(Fault::AppliedAnswerLost) => {
                self.with(|state| apply(state, Manner::Whole)).ok();
                Err(PortError::Unknown("the answer was lost".to_owned()).into())
            }
            Some(Fault::KilledBefore) => pending().await,
            Some(Fault::KilledAfter) => {
                self.with(|state| apply(state, Manner::Whole)).ok();
                pending().await
            }
        }
    }

    /// Waits for the scheduler, if there is one, then asks what goes wrong.
    async fn turn(&self, call: Call) -> Option<Fault> {
        if self.is_stepping() {
            let mut announced = false;
            poll_fn(|context| {
                if announced {
                    return Poll::Ready(());
                }
                announced = true;
                self.announce(&call);
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        self.next_fault(call)
    }
}
