//! One key's counters, and a lease of it.

use super::{cooldown::Cooldown, window::Window};
use crate::{
    admission::PoolKey,
    domain::ids::{KeyId, ModelId},
};

/// One key's counters.
#[derive(Debug)]
pub struct Slot {
    pub key: PoolKey,
    pub used: u64,
    pub used_at: i64,
    pub cooled: Cooldown,
    pub window: Option<Box<Window>>,
    pub in_flight: u32,
    /// The models in whose view it is parked until something is given back.
    pub waiting: Vec<ModelId>,
}

/// A live lease.
#[derive(Debug, Clone, Copy)]
pub struct Leased {
    pub key: KeyId,
    /// The second whose bucket it is counted in.
    pub second: i64,
    pub tokens: u64,
    pub until: i64,
    /// The second of the shared counters, where it is counted there too.
    pub shared_second: Option<i64>,
}

impl Slot {
    pub fn new(key: PoolKey) -> Self {
        Self {
            key,
            used: 0,
            used_at: 0,
            cooled: Cooldown::default(),
            window: None,
            in_flight: 0,
            waiting: Vec::new(),
        }
    }

    pub fn window(&mut self, second: i64) -> &mut Window {
        let window = self.window.get_or_insert_with(|| Box::new(Window::starting_at(second)));
        window.advance(second);
        window
    }
}
