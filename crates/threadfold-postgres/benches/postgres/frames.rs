//! From an append on one node to the frame on another.

use std::time::{Duration, Instant};

use threadfold_core::SessionEvent;
use threadfold_engine::{Delivery, Host, ListenOptions, Options, holder};

use crate::{Bench, Outcome, claim, quantile};

const APPENDS: usize = 500;
/// Longer than a frame takes: nothing waits for the one before.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn measure(bench: &Bench<'_>) -> Outcome<()> {
    // Stores of their own, with connections of their own, as two processes have.
    let (writing, reading) = (Host::new(bench.postgres().await?), bench.postgres().await?);
    let (reading, id) = (Host::new(reading), "followed".into());
    let mut session = writing.open(&id, Options::new(holder("a benchmark"))).await?;
    let event = SessionEvent::from_json(r#"{"type":"session:idle"}"#)?;
    session.emit(&event).await?;
    let options = ListenOptions { delivery: Delivery::Events, ..ListenOptions::default() };
    let mut listener = reading.listen(&id, options).await?;
    listener.next_frames().await;
    let (mut from_start, mut from_commit) = (Vec::new(), Vec::new());
    for _ in 0..APPENDS {
        let start = Instant::now();
        let (committed, arrived) = tokio::join!(
            async {
                session.emit(&event).await?;
                Outcome::Ok(Instant::now())
            },
            async {
                listener.next_frames().await;
                Instant::now()
            }
        );
        from_start.push((arrived - start).as_secs_f64() * 1e3);
        from_commit.push(arrived.saturating_duration_since(committed?).as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    println!("\nfrom an append on one node to the frame on another, {APPENDS} times, ms\n");
    println!("{:<44} {:>8} {:>8}", "", "p50", "p99");
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut from_start, share));
    println!("{:<44} {p50:>8.2} {p99:>8.2}", "from the call");
    let [after_p50, after_p99] = [0.5, 0.99].map(|share| quantile(&mut from_commit, share));
    println!("{:<44} {after_p50:>8.2} {after_p99:>8.2}", "from its acknowledgement");
    println!("\nfigures of this run");
    claim("p50 from the call, ms", p50, "at most 10");
    claim("p99 from the call, ms", p99, "at most 50");
    Ok(())
}
