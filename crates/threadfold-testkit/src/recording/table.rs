//! Prints verifications as a table.

use std::fmt::Write;

use threadfold_fold::parity::Verdict;

use super::Verification;

/// How many reasons of one recording are printed.
const SHOWN: usize = 6;

/// Returns a table of scenarios, verdicts and reasons, and a line with the totals.
pub fn table(verifications: &[Verification]) -> String {
    let name = verifications.iter().map(|it| it.scenario.len()).max().unwrap_or_default();
    let mut text = String::new();
    for verification in verifications {
        let verdict = word(verification.verdict());
        let reasons = verification.reasons();
        let first = reasons.first().map_or(String::new(), String::clone);
        add(&mut text, &format!("{:name$}  {verdict:9}  {first}", verification.scenario));
        for reason in reasons.iter().skip(1).take(SHOWN - 1) {
            add(&mut text, &format!("{:name$}  {:9}  {reason}", "", ""));
        }
        if reasons.len() > SHOWN {
            let more = reasons.len() - SHOWN;
            add(&mut text, &format!("{:name$}  {:9}  and {more} more", "", ""));
        }
    }
    let count = |verdict| verifications.iter().filter(|it| it.verdict() == verdict).count();
    let [equal, partial, different] =
        [Verdict::Equal, Verdict::Partial, Verdict::Different].map(count);
    let all = verifications.len();
    add(
        &mut text,
        &format!("{all} scenarios: {equal} equal, {partial} partial, {different} different"),
    );
    text
}

fn add(text: &mut String, line: &str) {
    writeln!(text, "{}", line.trim_end()).expect("writing to a string does not fail");
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::Partial => "partial",
        Verdict::Different => "different",
    }
}
