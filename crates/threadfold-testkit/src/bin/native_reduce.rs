//! Folds a file of events, one per line, and prints how many a second: the median of five runs.
//!
//! Usage: `native_reduce FILE`

use std::env;
use std::error::Error;
use std::fs;
use std::time::Instant;

use threadfold_core::{ConversationState, SessionEvent};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("a file is missing")?;
    let text = fs::read_to_string(path)?;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let mut state = ConversationState::default();
        let mut count = 0;
        for line in text.lines() {
            state.extend([&SessionEvent::from_json(line)?]);
            count += 1;
        }
        if state.blocks().is_empty() {
            return Err("nothing was folded".into());
        }
        rates.push(f64::from(count) / start.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!("{:.0}", rates[2]);
    Ok(())
}
