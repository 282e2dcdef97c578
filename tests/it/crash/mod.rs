//! What a crash may not do: processes are killed for real.

pub mod books;
mod journal;
mod registration;
mod replica;
mod slots;
mod windows;
