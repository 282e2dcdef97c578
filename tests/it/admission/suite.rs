//! The behaviours of `behaviour.rs`, each a test on both backends; `topology.rs` runs them on a
//! cluster too.

use std::{future::Future, pin::Pin};

use super::{behaviour, world::World};

type Behaviour = for<'a> fn(&'a World) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

macro_rules! suite {
    ($($name:ident)*) => {
        pub const ALL: &[(&str, Behaviour)] = &[$((stringify!($name), |world| Box::pin(behaviour::$name(world)))),*];

        mod local {
            use super::*;
            $(#[tokio::test] async fn $name() { behaviour::$name(&World::local()).await; })*
        }

        mod redis {
            use super::*;
            $(#[tokio::test] async fn $name() {
                let world = World::shared_redis();
                behaviour::$name(&world).await;
                world.assert_counted_together();
            })*
        }
    };
}

suite! {
    an_rpm_limit_is_kept_and_comes_back_when_named
    ninety_five_percent_of_an_rpm_limit_are_usable
    every_subject_must_agree_and_none_is_counted_when_one_does_not
    a_refused_key_undoes_the_entry
    a_refused_entry_undoes_the_lease
    a_slot_comes_back_when_settled
    a_slot_nobody_renews_is_free_again
    tokens_are_reserved_and_corrected_where_they_were_counted
    a_request_larger_than_the_tpm_limit_passes_an_empty_window
    a_thousand_acquires_are_shared_fairly
    requests_refused_at_the_door_leave_the_order_of_keys_alone
    lower_priority_is_tried_first_and_other_tenants_keys_do_not_exist
    a_key_used_for_one_model_waits_its_turn_for_another
    a_full_key_is_skipped_and_found_again
    excluded_keys_leave_nothing_to_wait_for
    a_cooldown_is_never_shortened
    cooldowns_have_their_scope_and_can_be_cleared
    keys_out_for_a_limit_and_keys_out_for_a_failure_are_told_apart
    back_off_rises_with_failures_in_a_row_and_falls_with_success
    the_first_lenient_failure_is_free
    no_cooldown_is_longer_than_half_an_hour
    funds_spent_and_funds_held_are_told_apart
    a_hold_outlives_its_slot_until_it_is_settled_by_id
    a_newer_pool_wins_and_an_older_caller_gets_keys_it_knows
    a_step_back_of_the_clock_frees_nothing
    a_small_request_finds_the_room_that_a_large_one_does_not
    an_operator_sees_what_is_counted
}
