//! The command `tollgate`: local stack, worker, front door, operators' commands and the demo.

pub mod args;
mod command;
mod demo;
pub mod expected;
mod input;
mod output;
mod process;
mod sender;
pub mod settings;
pub mod stack;

pub use command::run;
