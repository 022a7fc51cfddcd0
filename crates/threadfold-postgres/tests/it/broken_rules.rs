//! Every law of the suite is red once its rule is broken: a law that nothing can break proves nothing.
//!
//! A proxy changes a statement on its way to the database, as a mistake in the statement would, and
//! the law must fail. The laws about wake-ups within one process have no statement; they are left out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use threadfold_postgres::{PostgresStore, PostgresUrl};
use threadfold_store::Store;
use threadfold_testkit::store_suite::{
    NOW, Place, appending, blobs, changes, derived, leases, maintenance, reading, retrying,
    sessions, tickets,
};
use threadfold_testkit::{Durability, ManualClock, PostgresServer};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::sabotage_proxy::{Change, SabotageProxy};

/// How a law fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failing {
    /// It finds what is wrong.
    Finds,
    /// It waits for something that does not happen.
    Waits,
}

impl Failing {
    fn patience(self) -> Duration {
        Duration::from_secs(if self == Self::Waits { 8 } else { 100 })
    }
}

/// A store behind the proxy.
struct BehindProxy {
    url: PostgresUrl,
    clock: ManualClock,
}

impl Place for BehindProxy {
    fn open(&self) -> Arc<dyn Store> {
        let opening = PostgresStore::open_with_clock(&self.url, self.clock.clock());
        let opened = block_in_place(|| Handle::current().block_on(opening));
        Arc::new(opened.expect("it can be opened"))
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

/// Runs a law with changed statements, and fails if the law does not.
fn expect_red(failing: Failing, changes: &'static [Change], law: impl AsyncFnOnce(&dyn Place)) {
    let server = PostgresServer::start(Durability::Fast).expect("PostgreSQL can be started");
    let database = format!("127.0.0.1:{}", server.port());
    let proxy = SabotageProxy::start(database.parse().expect("it is an address"), changes);
    let url = server.url().replace(&database, &proxy.address.to_string()) + "?sslmode=disable";
    let place =
        BehindProxy { url: url.parse().expect("it is a URL"), clock: ManualClock::new(NOW) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime needs nothing but threads");
    let ended = catch_unwind(AssertUnwindSafe(|| {
        runtime
            .block_on(async { tokio::time::timeout(failing.patience(), law(&place)).await.is_ok() })
    }));
    runtime.shutdown_background();
    assert!(proxy.changed() > 0, "no statement was changed");
    let is_red = match ended {
        Ok(is_ended) => !is_ended && failing == Failing::Waits,
        Err(_) => true,
    };
    assert!(is_red, "the law holds although its rule is broken");
}

macro_rules! red {
    ($failing:expr; $($module:ident: $law:ident: $([$from:expr => $to:expr])+;)*) => {
        $(
            #[test]
            fn $law() {
                let law = async |place: &dyn Place| $module::$law(place).await;
                expect_red($failing, &[$(($from, $to)),+], law);
            }
        )*
    };
}

/// The first record of an append is numbered too high.
const NUMBER: Change = ("SELECT id, after + 1, count,", "SELECT id, after + 2, count,");
/// The record that an append follows need not be the last one.
const POSITION: Change = ("AND s.head = it.after", "AND s.head>= it.after");
/// An append may have the epoch of an earlier lease.
const EPOCH: Change = ("AND s.epoch = it.epoch", "AND s.epoch>=it.epoch");
/// No batch is found again.
const BATCH: Change = ("ORDER BY first DESC LIMIT 1", "ORDER BY first DESC LIMIT 0");
/// Reading begins behind the row that has the first record.
const FIRST_ROW: Change = ("AND first >= coalesce((SELECT", "AND first >  coalesce((SELECT");
/// Groups have another number of records.
const GROUP_COUNT: Change = ("SELECT first, count, meta,", "SELECT first,1+count,meta,");
/// The end of a log is not seen.
const HEAD: Change = ("SELECT log, head, epoch", "SELECT log,0*head,epoch");
/// A lease ends as soon as it begins.
const LEASE_TIME: Change =
    ("lease_until = threadfold.now_or($3) + $4", "lease_until = threadfold.now_or($3) - $4");
/// The clock of the machine, and not that of the store.
const CLOCK: Change = ("coalesce(given,", "coalesce( NULL,");
/// A removed session stays.
const REMOVAL: Change = (
    "DELETE FROM threadfold.sessions WHERE id = $1",
    "DELETE FROM threadfold.sessions WHERE id =-$1",
);
/// The pieces of a snapshot come in another order.
const PIECES: Change = ("ORDER BY number", "ORDER BY-number");
/// Nothing protects a blob that is in use.
const PROTECTION: Change =
    ("blob bigint NOT NULL REFERENCES threadfold.blobs", "blob bigint NOT NULL");
const GROUPS_IN_USE: Change = (
    "AND NOT EXISTS (SELECT FROM threadfold.groups WHERE blob = b.id)",
    "AND NOT EXISTS (SELECT FROM threadfold.groups WHERE blob =-b.id)",
);
/// A page begins with the session that it should follow, or goes the other way.
const PAGE_AGAIN: Change = ("WHERE name > $2 ORDER BY", "WHERE name >=$2 ORDER BY");
const PAGE_BACK: Change = ("WHERE name > $2 ORDER BY", "WHERE name < $2 ORDER BY");

red! {
    Failing::Finds;
    appending: records_are_read_back_unchanged: [NUMBER.0 => NUMBER.1];
    appending: records_are_numbered_without_a_gap: [NUMBER.0 => NUMBER.1];
    appending: an_append_at_the_wrong_position_is_refused_and_writes_nothing:
        [POSITION.0 => POSITION.1];
    appending: an_append_of_no_records_changes_nothing:
        ["head, holder, lease_until, threadfold" => "head+1,holder,lease_until, threadfold"];
    appending: one_of_several_appends_at_one_position_wins: [POSITION.0 => POSITION.1];
    appending: many_sessions_are_written_at_once: [NUMBER.0 => NUMBER.1];
    appending: a_refusal_does_not_disturb_others:
        [POSITION.0 => "AND s.head<= it.after"];
    appending: large_appends_are_read_back_unchanged: [GROUP_COUNT.0 => GROUP_COUNT.1];
    retrying: a_retry_is_acknowledged_and_not_repeated: [BATCH.0 => BATCH.1];
    retrying: another_append_at_the_same_place_is_no_retry: [POSITION.0 => POSITION.1];
    retrying: every_append_of_a_long_log_can_be_retried: [BATCH.0 => BATCH.1];
    retrying: every_append_can_be_retried_after_reopening: [BATCH.0 => BATCH.1];
    retrying: appends_to_many_sessions_at_once_are_read_and_retried: [BATCH.0 => BATCH.1];
    retrying: a_retry_is_acknowledged_even_if_another_writer_is_active: [BATCH.0 => BATCH.1];
    reading: limits_hold: [FIRST_ROW.0 => FIRST_ROW.1];
    reading: nothing_comes_after_the_end: [NUMBER.0 => NUMBER.1];
    reading: any_place_of_a_long_log_can_be_read: [FIRST_ROW.0 => FIRST_ROW.1];
    reading: readers_see_complete_appends_while_a_writer_writes: [FIRST_ROW.0 => FIRST_ROW.1];
    leases: one_writer_at_a_time: [LEASE_TIME.0 => LEASE_TIME.1];
    leases: a_replaced_writer_is_refused_with_the_new_holder: [EPOCH.0 => EPOCH.1];
    leases: a_lease_ends_with_its_time:
        ["lease_until <= threadfold.now_or($3) OR" => "lease_until <  0 OR"];
    leases: a_lease_is_timed_by_the_clock_of_the_store: [CLOCK.0 => CLOCK.1];
    leases: a_lease_has_its_remaining_time: [LEASE_TIME.0 => LEASE_TIME.1];
    leases: a_lease_can_be_taken_over_by_its_epoch: ["OR epoch = $5)" => "OR epoch < $5)"];
    leases: a_lease_can_be_renewed_until_another_has_one:
        ["AND epoch = $2 AND (SELECT version" => "AND epoch >=$2 AND (SELECT version"];
    leases: a_lease_is_released_only_by_its_holder:
        ["SET holder = NULL, lease_until = NULL" => "SET holder = holder"];
    leases: a_writer_that_was_suspended_during_a_removal_is_refused: [EPOCH.0 => EPOCH.1];
    derived: the_latest_snapshot_is_found: ["ORDER BY seq DESC LIMIT 1" => "ORDER BY seq ASC LIMIT 1"];
    derived: a_snapshot_replaces_one_at_the_same_record:
        ["AND generation = $2 AND seq = $3" => "AND generation = $2 AND seq =-$3"];
    derived: large_snapshots_are_read_back_unchanged: [PIECES.0 => PIECES.1];
    derived: a_snapshot_in_pieces_is_there_when_it_is_finished: [PIECES.0 => PIECES.1];
    derived: existing_pieces_are_referenced_and_not_sent:
        ["WHERE hash = ANY($1)" => "WHERE hash < ANY($1)"];
    derived: a_snapshot_with_a_missing_piece_is_refused:
        ["SELECT id, hash FROM threadfold.blobs WHERE hash = ANY($1)"
            => "SELECT id, h FROM threadfold.blobs, unnest($1::bytea[]) h"]
        ["ORDER BY hash FOR KEY SHARE" => ""];
    derived: derived_data_can_be_deleted:
        ["DELETE FROM threadfold.snapshots WHERE session = $1"
            => "DELETE FROM threadfold.snapshots WHERE session =-$1"];
    derived: a_summary_is_listed: ["<= ($3, $4 #" => ">= ($3, $4 #"];
    blobs: content_is_found_by_its_name: ["WHERE hash = $1" => "WHERE hash < $1"];
    blobs: a_blob_is_retained_while_a_session_refers_to_it: ["ON CONFLICT DO NOTHING" => "LIMIT 0"];
    blobs: recent_garbage_is_not_collected:
        ["WHERE stored_at <= threadfold.now_or($1) - $2" => "WHERE stored_at <= threadfold.now_or($1) + $2"];
    blobs: records_and_snapshots_survive_a_collection:
        [PROTECTION.0 => PROTECTION.1] [GROUPS_IN_USE.0 => GROUPS_IN_USE.1];
    blobs: a_fork_survives_the_original:
        [PROTECTION.0 => PROTECTION.1] [GROUPS_IN_USE.0 => GROUPS_IN_USE.1];
    maintenance: a_store_that_is_intact_has_no_findings: [NUMBER.0 => NUMBER.1];
    maintenance: the_size_counts_sessions_and_records: ["coalesce(sum(head)" => "coalesce(min(head)"];
    maintenance: a_store_that_can_be_used_is_ready: ["SELECT version FROM" => "SELECT 99 FROM"];
    tickets: a_ticket_is_used_once_whoever_asks:
        ["DELETE FROM threadfold.tickets WHERE hash = $1" => "UPDATE threadfold.tickets SET hash = $1"];
    tickets: a_ticket_expires_by_the_clock_of_the_store: [CLOCK.0 => CLOCK.1];
    tickets: unused_tickets_are_limited_until_they_expire: ["now_or($2)) < $4" => "now_or($2)) > $4"];
    sessions: a_session_begins_once: ["SELECT log, head, epoch" => "SELECT '' , head, epoch"];
    sessions: a_missing_session_is_not_found: ["WHERE name = $1" => "WHERE name <>$1"];
    sessions: sessions_are_listed_in_order: ["ORDER BY name LIMIT" => "ORDER BY  -id LIMIT"];
    sessions: an_entry_is_the_one_that_is_listed: ["WHERE name = $2" => "WHERE name <>$2"];
    sessions: pages_are_cut_by_prefix_position_and_limit: [PAGE_AGAIN.0 => PAGE_AGAIN.1];
    sessions: a_page_can_start_after_a_session_that_is_gone: [PAGE_BACK.0 => PAGE_BACK.1];
    sessions: many_pages_make_the_complete_list: [PAGE_BACK.0 => PAGE_BACK.1];
    sessions: a_removed_session_is_gone: [REMOVAL.0 => REMOVAL.1];
    sessions: a_session_that_is_written_cannot_be_removed:
        ["SELECT id, epoch, holder, lease_until," => "SELECT id, epoch, NULL, lease_until,"];
    sessions: everything_is_stored_after_reopening: [NUMBER.0 => NUMBER.1];
}

red! {
    Failing::Waits;
    reading: a_change_wakes_its_waiters: [HEAD.0 => HEAD.1];
    reading: waiting_for_an_existing_record_returns_at_once: [HEAD.0 => HEAD.1];
    reading: waiting_for_a_removed_session_is_an_error: [REMOVAL.0 => REMOVAL.1];
    changes: a_change_through_another_handle_wakes:
        ["pg_notify('threadfold'," => "pg_notify('elsewhere',"]
        ["SELECT pg_current_snapshot()::text" => "SELECT 'always the same'::text"];
}
