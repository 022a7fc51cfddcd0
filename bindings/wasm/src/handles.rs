//! Handles: small numbers by which the host names what it owns on this side.

/// Values by their handles. A handle that was freed is used again.
pub(crate) struct Handles<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Handles<T> {
    /// Stores a value, and returns its handle.
    pub(crate) fn add(&mut self, value: T) -> i32 {
        let handle = match self.free.pop() {
            Some(handle) => {
                self.values[handle as usize] = Some(value);
                handle
            }
            None => {
                self.values.push(Some(value));
                (self.values.len() - 1) as u32
            }
        };
        i32::try_from(handle).expect("memory is full long before there are so many handles")
    }

    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.values.get_mut(handle as usize)?.as_mut()
    }

    /// Drops a value. Freeing a handle twice does nothing.
    pub(crate) fn remove(&mut self, handle: u32) {
        if self.values.get_mut(handle as usize).and_then(Option::take).is_some() {
            self.free.push(handle);
        }
    }

    /// Returns how many values there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_used_again_and_freeing_it_twice_does_nothing() {
        let mut handles = Handles::default();
        let (a, b) = (handles.add("a"), handles.add("b"));
        handles.remove(a as u32);
        handles.remove(a as u32);
        assert_eq!((handles.len(), handles.get_mut(a as u32)), (1, None));
        assert_eq!(handles.add("c"), a);
        assert_eq!((handles.len(), handles.get_mut(b as u32)), (2, Some(&mut "b")));
        assert_eq!(handles.get_mut(7), None);
    }
}
