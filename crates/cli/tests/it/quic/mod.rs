//! `wireseal quic` on captures of real connections, on the same with something wrong, and on connections made for what those
//! lack.

mod command;
mod hostile;
mod made;
mod real;
mod synthetic;
