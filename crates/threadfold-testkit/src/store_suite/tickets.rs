//! Tests of tickets.

use std::time::Duration;

use threadfold_store::{TicketHash, TicketUse};

use super::Place;

const LIFETIME: Duration = Duration::from_secs(30);

/// Of several handles at once, one accepts it.
pub async fn a_ticket_is_used_once_whoever_asks(place: &dyn Place) {
    let (one, other) = (place.open(), place.open());
    for number in 0..20 {
        let ticket = TicketHash::of(&format!("ticket {number}"));
        assert!(one.add_ticket(&ticket, LIFETIME, 100).await.expect("it is added"));
        let uses = tokio::join!(
            one.use_ticket(&ticket),
            other.use_ticket(&ticket),
            one.use_ticket(&ticket),
            other.use_ticket(&ticket),
        );
        let uses = [uses.0, uses.1, uses.2, uses.3].map(|it| it.expect("it is answered"));
        let accepted = uses.iter().filter(|it| **it == TicketUse::Accepted).count();
        assert_eq!(accepted, 1, "{uses:?}");
    }
    let unknown = one.use_ticket(&TicketHash::of("another")).await.expect("it is answered");
    assert_eq!(unknown, TicketUse::Unknown);
}

/// And by no other.
pub async fn a_ticket_expires_by_the_clock_of_the_store(place: &dyn Place) {
    let store = place.open();
    let [early, late] = ["early", "late"].map(TicketHash::of);
    for ticket in [early, late] {
        assert!(store.add_ticket(&ticket, LIFETIME, 100).await.expect("it is added"));
    }
    place.clock().advance(LIFETIME - Duration::from_millis(1));
    let used = store.use_ticket(&early).await.expect("it is answered");
    assert_eq!(used, TicketUse::Accepted);
    place.clock().advance(Duration::from_millis(1));
    let used = store.use_ticket(&late).await.expect("it is answered");
    assert_eq!(used, TicketUse::Expired);
}

/// Tickets that were used or have expired do not count.
pub async fn unused_tickets_are_limited_until_they_expire(place: &dyn Place) {
    let store = place.open();
    let [one, two, three] = ["one", "two", "three"].map(TicketHash::of);
    let add = |ticket: TicketHash| {
        let store = store.clone();
        async move { store.add_ticket(&ticket, LIFETIME, 2).await.expect("it is answered") }
    };
    assert!(add(one).await && add(two).await);
    assert!(!add(three).await);
    store.use_ticket(&one).await.expect("it is answered");
    assert!(add(three).await);
    assert!(!add(one).await);
    place.clock().advance(LIFETIME);
    assert!(add(one).await);
}
