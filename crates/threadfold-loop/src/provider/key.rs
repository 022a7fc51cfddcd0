//! A provider's API key, which is sent to the provider and nowhere else.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use reqwest::header::HeaderValue;

use super::access::AccessError;

/// A shorter key is not secret, and redacting it would mangle ordinary text.
const SECRET_LENGTH: usize = 8;

/// A provider's API key. Its value is never printed.
///
/// ```
/// use threadfold_loop::Key;
///
/// let key = Key::new(" sk-1234567890\n")?;
/// assert_eq!(format!("{key} {key:?}"), "*** Key(***)");
/// # Ok::<(), threadfold_loop::AccessError>(())
/// ```
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    is_exposed: bool,
}

impl Key {
    /// Returns the key in `text`, such as the value of an environment variable. Surrounding white
    /// space is removed.
    pub fn new(text: &str) -> Result<Self, AccessError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(AccessError::KeyMissing);
        }
        if !text.chars().all(|it| it.is_ascii_graphic()) {
            return Err(AccessError::KeyUnreadable);
        }
        Ok(Self { text: text.into(), is_exposed: false })
    }

    /// Reads the key from a file. Surrounding white space is removed.
    pub fn from_file(path: &Path) -> Result<Self, AccessError> {
        let error = |source| AccessError::KeyFile { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(error)?;
        let metadata = std::fs::metadata(path).map_err(error)?;
        Ok(Self { is_exposed: others_can_read(&metadata), ..Self::new(&text)? })
    }

    /// Returns true if the key came from a file that other users of this machine can read.
    pub fn is_exposed(&self) -> bool {
        self.is_exposed
    }

    /// Returns a header value: `before`, followed by the key.
    pub(super) fn header(&self, before: &str) -> Result<HeaderValue, AccessError> {
        let text = format!("{before}{}", self.text);
        let mut value = HeaderValue::from_str(&text).map_err(|_| AccessError::KeyUnreadable)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Redacts the key in a text.
    pub(super) fn hide_in(&self, text: String) -> String {
        let is_present = self.text.len() >= SECRET_LENGTH && text.contains(&*self.text);
        if is_present { text.replace(&*self.text, "***") } else { text }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(unix)]
fn others_can_read(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;

    metadata.permissions().mode() & 0o044 != 0
}

#[cfg(not(unix))]
fn others_can_read(_: &std::fs::Metadata) -> bool {
    false
}
