//! Every QUIC packet of a capture, opened.
