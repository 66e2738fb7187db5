//! The queue's twin as the front door sees it.

use tollgate_domain::envelope::Envelope;
use tollgate_domain::ports::{Intake, PortResult};

use super::{Call, Effect, World};

/// Port `Intake` over a [`World`].
#[derive(Clone)]
pub struct MemoryIntake(pub(super) World);

impl Intake for MemoryIntake {
    async fn send_each(&self, messages: &[String], told: &mut (impl FnMut(usize, PortResult<()>) + Send)) {
        for (place, message) in messages.iter().enumerate() {
            // Each message is an effect of its own: a batch can fail for some of its entries.
            let call = Call { effect: Effect::Send, key: Envelope::decode(message).ok().map(|sent| sent.key()) };
            let sent = self.0.effect(call, |state| {
                state.queue.push(message, state.now);
                Ok(())
            });
            told(place, sent.await);
        }
    }

    async fn probe(&self) -> PortResult<()> {
        self.0.effect(Effect::ProbeQueue, |_| Ok(())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, Script};
    use tollgate_domain::ports::PortError;

    #[tokio::test]
    async fn some_messages_can_fail_and_a_lost_answer_is_a_sent_message() {
        let world = World::new();
        let busy = PortError::NotNow("busy".to_owned());
        world.install(Script::new().on(Effect::Send, 1..=1, Fault::NotApplied(busy.clone())).on(
            Effect::Send,
            3..=3,
            Fault::AppliedAnswerLost,
        ));
        let answers = world.intake().send(&["a".to_owned(), "b".to_owned(), "c".to_owned()]).await;
        assert_eq!((&answers[0], &answers[1]), (&Err(busy), &Ok(())));
        assert!(matches!(answers[2], Err(PortError::Unknown(_))));
        let bodies: Vec<_> = world.with(|state| state.queue.messages.iter().map(|m| m.body.clone()).collect());
        assert_eq!(bodies, ["b", "c"]);
    }
}
