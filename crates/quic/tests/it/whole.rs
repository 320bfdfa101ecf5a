//! The connections of these tests are whole. Elsewhere the same tests run on connections in two halves.

pub(crate) use wireseal_quic::OneRtt;

pub(crate) const fn connection(whole: OneRtt) -> OneRtt {
    whole
}
