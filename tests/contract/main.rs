//! One suite over the ports, run on DynamoDB and on the twins in memory: the same calls must answer alike.
//!
//! Each condition of the protocol has a test that arranges the race which it closes: the write is refused, the item
//! that stands comes back with the refusal, and it stands as before.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

mod bench;
mod billing;
#[path = "../end_to_end/engines.rs"]
mod engines;
mod keys;
mod ledger;
mod live;
mod memory;
mod quarantine;
mod receipts;
mod usage;

/// Makes each case a test on both benches.
macro_rules! on_both_benches {
    ($($file:ident: $($case:ident)+;)+) => {
        mod on_dynamodb {
            $($(
                #[tokio::test]
                async fn $case() {
                    crate::$file::$case(&crate::live::Live::new().await).await;
                }
            )+)+
        }
        mod in_memory {
            $($(
                #[tokio::test]
                async fn $case() {
                    crate::$file::$case(&crate::memory::Memory::new().await).await;
                }
            )+)+
        }
    };
}

on_both_benches! {
    ledger:
        a_claim_is_won_once_and_the_loser_gets_the_winner_s_item
        claims_in_a_race_are_won_once
        an_event_that_nobody_billed_is_not_closed
        a_rejected_event_is_not_closed
        an_event_is_closed_once
        an_uninsertable_event_is_not_closed
        nothing_is_closed_without_an_item
        a_conflict_without_an_item_is_refused_and_makes_none
        a_conflict_that_comes_twice_is_kept_once
        a_conflict_leaves_what_was_decided_alone
        a_conflict_leaves_a_higher_reason_for_attention_alone
        a_look_at_many_events_tells_of_each_what_a_read_would_in_the_order_of_the_keys;
    billing:
        a_consumption_moves_counter_and_checkpoint_together
        a_full_month_moves_neither_and_hands_back_its_count
        a_charged_event_is_not_charged_twice
        a_stamped_event_is_not_charged
        a_rejected_event_is_not_charged
        an_event_without_a_claim_is_not_charged
        a_refused_checkpoint_and_a_full_month_hand_back_both
        months_and_spaces_have_counters_of_their_own
        consumptions_in_a_race_stop_at_the_limit
        consumptions_of_one_event_in_a_race_charge_once
        a_stamp_writes_what_it_was_billed_as
        an_event_is_stamped_once
        a_charged_event_is_not_stamped
        a_rejected_event_is_not_stamped
        nothing_is_stamped_without_an_item
        a_rejection_keeps_what_justified_it
        a_charged_event_is_not_rejected
        a_stamped_event_is_not_rejected
        an_event_is_rejected_once
        nothing_is_rejected_without_an_item
        a_stamp_and_a_rejection_in_a_race_leave_one_of_them;
    quarantine:
        quarantines_are_counted_one_by_one_with_the_last_error
        a_first_quarantine_that_is_repeated_counts_once
        a_quarantine_that_somebody_counted_first_is_refused
        a_quarantine_within_the_spacing_is_refused
        a_quarantine_of_an_event_that_nobody_billed_is_refused
        a_first_quarantine_of_a_closed_event_is_refused
        a_further_quarantine_of_a_closed_event_is_refused
        a_further_quarantine_of_an_event_that_nobody_billed_is_refused
        an_event_is_not_given_up_below_the_maximum
        an_event_is_given_up_at_the_maximum
        an_event_that_nobody_billed_is_not_given_up
        a_closed_event_is_not_given_up;
    keys:
        a_space_lists_its_own_keys_oldest_first
        a_use_is_noted_once_in_a_spacing
        a_use_of_a_key_that_is_gone_makes_no_entry;
    receipts:
        a_command_is_begun_once_and_the_others_get_the_receipt_that_stands
        commands_begun_in_a_race_are_run_once
        an_answer_is_kept_and_handed_to_whoever_comes
        what_has_expired_is_replaced_though_it_was_not_deleted
        an_abandoned_command_is_taken_over_by_the_same_request
        an_abandoned_command_is_not_taken_over_by_another_request
        whoever_was_taken_over_keeps_no_answer
        an_answer_whose_writing_is_repeated_is_kept_the_same
        nothing_is_finished_or_released_without_a_receipt
        a_released_command_runs_again_at_once
        whoever_was_taken_over_releases_nothing
        an_answer_is_not_released;
    usage:
        plus_usage_is_the_month_s_events_that_were_billed_as_plus_each_once;
}

#[tokio::test]
async fn of_two_revocations_the_earlier_one_holds_and_a_key_that_is_gone_has_none() {
    keys::of_two_revocations_the_earlier_one_holds_and_a_key_that_is_gone_has_none(&live::Live::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_sequences_of_operations_answer_alike_in_memory_and_on_the_engines() {
    let config = engines::config();
    let stores = tollgate_stores::connect::Stores::connect(&config).await.unwrap();
    let report = tollgate_tests::accord::run(&stores, &engines::unique("accord"), 1_500, 1).await;
    let report = report.unwrap_or_else(|difference| panic!("{difference}"));
    assert!(report.operations >= 1_500);
}
