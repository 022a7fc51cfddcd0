//! The names of MCP tools.

/// The longest name that all providers accept.
const LONGEST: usize = 64;

/// Returns `mcp__server__tool`, in the characters that all providers accept.
pub(super) fn tool_name(server: &str, tool: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
    let name = format!("mcp__{server}__{tool}").chars().map(plain).collect::<String>();
    if name.len() <= LONGEST { name } else { distinct_name(&name, server, tool) }
}

/// Returns a name with a hash suffix, for names that became equal or too long.
pub(super) fn distinct_name(name: &str, server: &str, tool: &str) -> String {
    let hash = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let kept = name.len().min(LONGEST - 9);
    format!("{}_{}", &name[..kept], &hash[..8])
}
