//! Listing 100,000 sessions page by page.

use std::time::Instant;

use threadfold_store::ListQuery;

use crate::{Bench, Outcome, claim, quantile};

const SESSIONS: u64 = 100_000;

pub(crate) async fn measure(bench: &Bench<'_>) -> Outcome<()> {
    let store = bench.postgres().await?;
    // As so many sessions look whose summaries were written.
    bench.server.sql(&format!(
        "INSERT INTO threadfold.sessions
             (name, log, created, epoch, head, latest, summary_generation, summary_seq, summary)
         SELECT convert_to('listed-' || lpad(n::text, 8, '0'), 'UTF8'), 'log-' || n, n, 1, 100, n, 1,
                100, '{{\"title\":\"session ' || n || '\",\"blocks\":40,\"text\":\"' || repeat('x', 300)
                || '\"}}'
         FROM generate_series(1, {SESSIONS}) AS n"
    ))?;
    bench.server.sql("ANALYZE threadfold.sessions")?;
    let mut query = ListQuery::with_prefix("listed-");
    let (mut times, mut count) = (Vec::new(), 0);
    loop {
        let start = Instant::now();
        let page = store.list(&query).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        count += page.entries.len();
        match page.next {
            None => break,
            next => query.after = next,
        }
    }
    println!("\nlist of {count} sessions, {} pages, ms a page\n", times.len());
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&mut times, share));
    println!("{:<44} {p50:>8.2} {p99:>8.2} {most:>8.2}", "p50, p99, longest");
    claim("longest page, ms", most, "at most 100");
    Ok(())
}
