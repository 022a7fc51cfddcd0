//! The tests that every store must pass.
//!
//! A store's crate provides its stores, and gets a test for each guarantee of the interface:
//!
//! ```text
//! threadfold_testkit::store_suite!(MyPlace::new());
//! ```

use std::future::Future;
use std::sync::Arc;

use threadfold_store::Store;

use crate::ManualClock;

pub mod appending;
pub mod blobs;
pub mod changes;
pub mod derived;
pub mod leases;
pub mod maintenance;
pub mod reading;
pub mod retrying;
pub mod sessions;
pub mod tickets;
mod writer;

pub use writer::{LASTING, NOW, Writer, holder, line, read_all, record};

/// Provides the stores of one test. Their clock starts at [`NOW`].
pub trait Place: Send + Sync {
    /// Opens the store of this place, with all its earlier content.
    fn open(&self) -> Arc<dyn Store>;

    /// Returns the clock of the store.
    fn clock(&self) -> &ManualClock;
}

/// Runs one test of the suite.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime needs nothing but threads");
    runtime.block_on(test);
}

/// Defines a test for each guarantee; `$place` is evaluated for each of them.
#[macro_export]
macro_rules! store_suite {
    ($place:expr) => {
        $crate::store_suite!(@tests $place;
            appending: records_are_read_back_unchanged;
            appending: records_are_numbered_without_a_gap;
            appending: an_append_at_the_wrong_position_is_refused_and_writes_nothing;
            appending: an_append_of_no_records_changes_nothing;
            appending: one_of_several_appends_at_one_position_wins;
            appending: many_sessions_are_written_at_once;
            appending: a_refusal_does_not_disturb_others;
            appending: large_appends_are_read_back_unchanged;
            retrying: a_retry_is_acknowledged_and_not_repeated;
            retrying: another_append_at_the_same_place_is_no_retry;
            retrying: every_append_of_a_long_log_can_be_retried;
            retrying: every_append_can_be_retried_after_reopening;
            retrying: appends_to_many_sessions_at_once_are_read_and_retried;
            retrying: a_retry_is_acknowledged_even_if_another_writer_is_active;
            reading: limits_hold;
            reading: nothing_comes_after_the_end;
            reading: any_place_of_a_long_log_can_be_read;
            reading: readers_see_complete_appends_while_a_writer_writes;
            reading: a_change_wakes_its_waiters;
            reading: waiting_for_an_existing_record_returns_at_once;
            reading: waiting_for_a_removed_session_is_an_error;
            changes: a_new_position_is_returned_at_once;
            changes: every_change_of_a_session_wakes;
            changes: reading_wakes_nobody;
            changes: a_change_between_two_waits_is_not_missed;
            changes: a_change_through_another_handle_wakes;
            leases: one_writer_at_a_time;
            leases: a_replaced_writer_is_refused_with_the_new_holder;
            leases: a_lease_ends_with_its_time;
            leases: a_lease_is_timed_by_the_clock_of_the_store;
            leases: a_lease_has_its_remaining_time;
            leases: a_lease_can_be_taken_over_by_its_epoch;
            leases: a_lease_can_be_renewed_until_another_has_one;
            leases: a_lease_is_released_only_by_its_holder;
            leases: a_writer_that_was_suspended_during_a_removal_is_refused;
            derived: the_latest_snapshot_is_found;
            derived: a_snapshot_replaces_one_at_the_same_record;
            derived: large_snapshots_are_read_back_unchanged;
            derived: a_snapshot_in_pieces_is_there_when_it_is_finished;
            derived: existing_pieces_are_referenced_and_not_sent;
            derived: a_snapshot_with_a_missing_piece_is_refused;
            derived: derived_data_can_be_deleted;
            derived: a_summary_is_listed;
            blobs: content_is_found_by_its_name;
            blobs: a_blob_is_retained_while_a_session_refers_to_it;
            blobs: recent_garbage_is_not_collected;
            maintenance: a_store_that_is_intact_has_no_findings;
            maintenance: the_size_counts_sessions_and_records;
            maintenance: a_store_that_can_be_used_is_ready;
            tickets: a_ticket_is_used_once_whoever_asks;
            tickets: a_ticket_expires_by_the_clock_of_the_store;
            tickets: unused_tickets_are_limited_until_they_expire;
            blobs: records_and_snapshots_survive_a_collection;
            blobs: a_fork_survives_the_original;
            sessions: a_session_begins_once;
            sessions: a_missing_session_is_not_found;
            sessions: sessions_are_listed_in_order;
            sessions: an_entry_is_the_one_that_is_listed;
            sessions: pages_are_cut_by_prefix_position_and_limit;
            sessions: a_page_can_start_after_a_session_that_is_gone;
            sessions: many_pages_make_the_complete_list;
            sessions: a_removed_session_is_gone;
            sessions: a_session_that_is_written_cannot_be_removed;
            sessions: everything_is_stored_after_reopening;
        );
    };
    (@tests $place:expr; $($module:ident: $test:ident;)*) => {
        $(
            #[test]
            fn $test() {
                let place = $place;
                $crate::store_suite::run($crate::store_suite::$module::$test(&place));
            }
        )*
    };
}
