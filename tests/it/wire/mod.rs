//! The wire floor against recorded traffic.

mod openai_chat;
mod recordings;
