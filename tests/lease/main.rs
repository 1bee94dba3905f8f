//! Process leases, with real processes.

mod completion;
mod helper;
mod holder;
mod lineage;
mod registry;
mod run;
mod terminate;
