//! Deterministic pseudo-random numbers, and texts generated from them.

/// Sentences, escaped for a JSON string.
const PROSE: [&str; 12] = [
    "The reducer takes one event at a time and never looks back at the file it came from. ",
    "I'll read the module first, then change the smallest thing that could work. ",
    "That test fails because the fixture still holds the \\\"old\\\" name of the field.\\n",
    "There are two callers of this function, and only one of them checks the result. ",
    "Let me look at how the other stores do it before I decide.\\n\\n",
    "- `src/state/order.rs` keeps the labels that leave room between blocks\\n",
    "## What I found\\n\\nThe lock is held across the await point, so a second writer waits. ",
    "It is green now: 212 passed, 0 failed. ",
    "The path is `C:\\\\Users\\\\dev\\\\project` on the other machine, which explains the slash. ",
    "Größe und Länge stimmen überein — das ist, was wir wollten. ",
    "One more thing: the cache is never cleared when a session ends… ",
    "Done. ✅ The change is small, and the documentation says the same as the code.\\n",
];

/// Lines of code and tool output, escaped for a JSON string.
const CODE: [&str; 14] = [
    "use std::collections::BTreeMap;\\n",
    "    let mut state = ConversationState::default();\\n",
    "    for (index, line) in text.lines().enumerate() {\\n",
    "        println!(\\\"{index}: {line}\\\");\\n",
    "    }\\n",
    "\\n",
    "// Blocks are shared, so a clone is cheap and the old state stays whole.\\n",
    "pub fn apply(&mut self, event: &SessionEvent) -> Outcome {\\n",
    "\\tif err != nil {\\n\\t\\treturn fmt.Errorf(\\\"read %s: %w\\\", path, err)\\n\\t}\\n",
    "test laws::a_prefix_then_the_rest_is_the_whole ... ok\\n",
    "drwxr-xr-x  4 dev dev    4096 Nov 15 19:53 crates\\n",
    "warning: unused variable: `position`\\n  --> src/lines.rs:41:9\\n",
    "const total = items.reduce((sum, item) => sum + item.price * item.count, 0);\\n",
    "    return {\\\"status\\\": \\\"ok\\\", \\\"items\\\": [i.name for i in items if i.visible]}\\n",
];

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Pseudo-random numbers: `splitmix64`.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to just below `high`.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.number() % (high - low) as u64) as usize
    }

    /// Returns true in `percent` of all cases.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.between(0, 100) < percent
    }

    /// Returns a number from one of `ranges`, chosen by weight.
    pub(super) fn spread(&mut self, ranges: &[(usize, usize, usize)]) -> usize {
        let total = ranges.iter().map(|(weight, _, _)| weight).sum();
        let mut at = self.between(0, total);
        for &(weight, low, high) in ranges {
            if at < weight {
                return self.between(low, high);
            }
            at -= weight;
        }
        0
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.between(0, from.len())]
    }

    /// Appends about `bytes` of sentences.
    pub(super) fn prose(&mut self, bytes: usize, out: &mut String) {
        let end = out.len() + bytes;
        while out.len() < end {
            out.push_str(self.pick(&PROSE));
        }
    }

    /// Appends about `bytes` of code.
    pub(super) fn code(&mut self, bytes: usize, out: &mut String) {
        let end = out.len() + bytes;
        while out.len() < end {
            out.push_str(self.pick(&CODE));
        }
    }

    /// Appends about `bytes` of code with line numbers, as a tool prints it.
    pub(super) fn numbered_code(&mut self, bytes: usize, out: &mut String) {
        let end = out.len() + bytes;
        let mut line = 1;
        while out.len() < end {
            out.push_str(&format!("{line:>6}→"));
            out.push_str(self.pick(&CODE));
            line += 1;
        }
    }

    /// Appends `bytes` of base64.
    pub(super) fn base64(&mut self, bytes: usize, out: &mut String) {
        let end = out.len() + bytes;
        while out.len() < end {
            let mut number = self.number();
            for _ in 0..10.min(end - out.len()) {
                out.push(char::from(LETTERS[(number & 63) as usize]));
                number >>= 6;
            }
        }
    }

    /// Returns an id in the format of messages, calls and requests.
    pub(super) fn name(&mut self, prefix: &str) -> String {
        let number = (u128::from(self.number()) << 64) | u128::from(self.number());
        format!("{prefix}_01{:022x}", number >> 40)
    }

    pub(super) fn uuid(&mut self) -> String {
        let (a, b) = (self.number(), self.number());
        let (time, node) = (a >> 32, b & 0xFFFF_FFFF_FFFF);
        let (middle, version, variant) = ((a >> 16) & 0xFFFF, a & 0xFFF, (b >> 48) & 0xFFF);
        format!("{time:08x}-{middle:04x}-4{version:03x}-a{variant:03x}-{node:012x}")
    }
}

/// A deterministic clock, which starts at the same day in every run.
#[derive(Default)]
pub(super) struct Clock(u64);

impl Clock {
    /// Returns a time shortly after the last one.
    pub(super) fn tick(&mut self, chance: &mut Chance) -> String {
        self.0 += chance.number() % 4_000;
        let (seconds, millis) = (self.0 / 1_000, self.0 % 1_000);
        let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
        let (year, month, day) = (2026 + days / 336, 1 + days / 28 % 12, 1 + days % 28);
        let (hour, minute, second) = (hours % 24, minutes % 60, seconds % 60);
        format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}
