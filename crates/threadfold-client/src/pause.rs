//! Pauses between attempts: they grow, and no two clients have the same.

use std::time::Duration;

/// The shortest and the longest pause.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Growing pauses, with jitter: after a restart of the server, not all clients come at once.
#[derive(Clone, Debug)]
pub struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: SHORTEST }
    }
}

impl Pauses {
    /// Returns the next pause: between half and all of twice the one before.
    pub fn next_pause(&mut self) -> Duration {
        let most = self.next;
        self.next = (most * 2).min(LONGEST);
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Starts again with the shortest pause, after a success.
    pub fn reset(&mut self) {
        self.next = SHORTEST;
    }

    /// Waits for the next pause.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let mut pauses = Pauses::default();
        let all: Vec<Duration> = (0..12).map(|_| pauses.next_pause()).collect();
        assert!(all[0] >= SHORTEST / 2 && all[0] <= SHORTEST);
        assert!(all[11] >= LONGEST / 2 && all[11] <= LONGEST, "{:?}", all[11]);
        pauses.reset();
        assert!(pauses.next_pause() <= SHORTEST);
    }
}
