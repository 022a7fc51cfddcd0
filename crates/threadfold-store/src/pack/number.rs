//! Variable-length integers, and a reader for packed bytes.

use super::PackError;

/// Writes a LEB128 integer: seven bits a byte, lowest first; the high bit marks that more follow.
pub(super) fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a signed integer in zigzag form, so that values near zero are short.
pub(super) fn write_signed(out: &mut Vec<u8>, number: i64) {
    write(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Reads packed bytes from the front.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the bytes that were not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], PackError> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or(PackError("the bytes are truncated"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, PackError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn number(&mut self) -> Result<u64, PackError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(PackError("an integer is too long"))
    }

    pub(super) fn length(&mut self) -> Result<usize, PackError> {
        usize::try_from(self.number()?).map_err(|_| PackError("a length is too large"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, PackError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
