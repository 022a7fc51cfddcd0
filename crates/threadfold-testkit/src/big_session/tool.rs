//! Tool calls and their results: arguments, the model's result, and the agent's structured result.

use super::chance::Chance;

/// The lengths of tool results: many short, few long, and occasionally a very long one.
const RESULTS: [(usize, usize, usize); 5] = [
    (480, 40, 700),
    (330, 700, 3_000),
    (150, 3_000, 14_000),
    (39, 14_000, 30_000),
    (1, 100_000, 500_000),
];

/// A call, and its results.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: &'static str,
    /// Its arguments, as JSON.
    pub(super) input: String,
    /// The result for the model, as JSON.
    pub(super) content: String,
    /// The structured result that the agent stores, as JSON.
    pub(super) structured: String,
    pub(super) is_error: bool,
}

impl Call {
    pub(super) fn new(chance: &mut Chance) -> Self {
        let id = chance.name("toolu");
        let bytes = chance.spread(&RESULTS);
        match chance.between(0, 100) {
            0..40 => read(id, chance, bytes),
            40..75 => bash(id, chance, bytes),
            75..90 => edit(id, chance, bytes),
            90..96 => connected(id, chance, bytes),
            _ => failed(id, chance),
        }
    }
}

fn path(chance: &mut Chance) -> String {
    format!("/home/dev/project/crates/part-{}/src/lib.rs", chance.between(0, 90))
}

fn read(id: String, chance: &mut Chance, bytes: usize) -> Call {
    let path = path(chance);
    let mut content = String::from("\"");
    chance.numbered_code(bytes, &mut content);
    content.push('"');
    let mut structured = format!(r#"{{"type":"text","file":{{"filePath":"{path}","content":""#);
    chance.code(bytes, &mut structured);
    structured.push_str(r#"","numLines":120,"startLine":1,"totalLines":120}}"#);
    let input = format!(r#"{{"file_path":"{path}","offset":1,"limit":120}}"#);
    Call { id, name: "Read", input, content, structured, is_error: false }
}

fn bash(id: String, chance: &mut Chance, bytes: usize) -> Call {
    let mut printed = String::new();
    chance.code(bytes, &mut printed);
    let mut input = String::from(r#"{"command":"cargo test --workspace 2>&1 | tail -40; "#);
    let script = chance.spread(&[(85, 1, 80), (15, 80, 1_500)]);
    chance.code(script, &mut input);
    input.push_str(r#"","description":"Run the tests and look at the end"}"#);
    let structured = format!(
        r#"{{"stdout":"{printed}","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false}}"#
    );
    let content = format!("\"{printed}\"");
    Call { id, name: "Bash", input, content, structured, is_error: false }
}

fn edit(id: String, chance: &mut Chance, bytes: usize) -> Call {
    let path = path(chance);
    let (mut old, mut new, mut original) = (String::new(), String::new(), String::new());
    let length = chance.between(60, 900);
    chance.code(length, &mut old);
    chance.code(length + 100, &mut new);
    chance.code(bytes, &mut original);
    let input = format!(
        r#"{{"file_path":"{path}","old_string":"{old}","new_string":"{new}","replace_all":false}}"#
    );
    let content = format!(r#""The file {path} has been updated successfully.""#);
    let structured = format!(
        r#"{{"filePath":"{path}","oldString":"{old}","newString":"{new}","originalFile":"{original}","structuredPatch":[{{"oldStart":41,"oldLines":7,"newStart":41,"newLines":9,"lines":[" fn before() {{","-{old}","+{new}"," }}"]}}],"userModified":false,"replaceAll":false}}"#
    );
    Call { id, name: "Edit", input, content, structured, is_error: false }
}

/// A tool of an MCP server: its result is a list.
fn connected(id: String, chance: &mut Chance, bytes: usize) -> Call {
    let mut found = String::new();
    chance.prose(bytes, &mut found);
    let content = format!(r#"[{{"type":"text","text":"{found}"}}]"#);
    let input = r#"{"query":"how are blocks ordered","limit":20}"#.to_owned();
    let structured = content.clone();
    Call { id, name: "mcp__docs__search", input, content, structured, is_error: false }
}

fn failed(id: String, chance: &mut Chance) -> Call {
    let path = path(chance);
    let content = format!(r#""File does not exist: {path}. Did you mean lib.rs?""#);
    let structured = format!(r#""Error: File does not exist: {path}. Did you mean lib.rs?""#);
    let input = format!(r#"{{"file_path":"{path}"}}"#);
    Call { id, name: "Read", input, content, structured, is_error: true }
}
