//! Turns stored names into file names that cannot leave their folder.

use std::path::PathBuf;

/// The maximum length of a name; most file systems refuse longer ones.
const LONGEST: usize = 200;

/// Returns any name as a single file name.
pub fn file_name(name: &str) -> String {
    component(&name.replace('/', "%2F")).unwrap_or_else(|| "%".to_owned())
}

/// Returns any name as a relative path inside a folder.
pub(crate) fn relative_path(name: &str) -> PathBuf {
    let path: PathBuf = name.split('/').filter_map(component).collect();
    if path.as_os_str().is_empty() { PathBuf::from("%") } else { path }
}

/// Returns a path component that is not empty, not `..`, and has no control characters.
fn component(part: &str) -> Option<String> {
    if part.is_empty() {
        return None;
    }
    if part.bytes().all(|byte| byte == b'.') {
        return Some(part.replace('.', "%2E"));
    }
    let mut safe = String::with_capacity(part.len());
    for letter in part.chars() {
        if letter.is_control() || matches!(letter, '\\' | ':') {
            let mut bytes = [0; 4];
            let bytes = letter.encode_utf8(&mut bytes).bytes();
            bytes.for_each(|byte| safe.push_str(&format!("%{byte:02X}")));
        } else {
            safe.push(letter);
        }
    }
    if safe.len() > LONGEST {
        let mut end = LONGEST;
        while !safe.is_char_boundary(end) {
            end -= 1;
        }
        safe.truncate(end);
        safe.push('~');
    }
    Some(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_folder() {
        let cases = [
            ("s1.jsonl", "s1.jsonl"),
            ("s1/subagents/agent-a.jsonl", "s1/subagents/agent-a.jsonl"),
            ("../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            ("a/./b//c", "a/%2E/b/c"),
            ("..\\x", "..%5Cx"),
            ("C:\\x\u{1b}\0", "C%3A%5Cx%1B%00"),
            ("", "%"),
            ("/", "%"),
        ];
        for (name, path) in cases {
            assert_eq!(relative_path(name), PathBuf::from(path), "{name}");
        }
        assert_eq!(file_name("../x"), "..%2Fx");
        assert_eq!(file_name(".."), "%2E%2E");
        assert!(relative_path(&"ä".repeat(500)).as_os_str().len() < 255);
    }
}
