//! The state before the first round (RFC 8439 §2.3).

/// "expand 32-byte k", the first row.
pub(super) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// The sixteen words, each made by `$word`, with the given last row. A function would not be inlined into every vector's code.
macro_rules! initial_state {
    ($word:expr, $key:expr, $last_row:expr) => {{
        let [c0, c1, c2, c3] = $crate::chacha20::state::CONSTANTS;
        let [k0, k1, k2, k3, k4, k5, k6, k7] = *$key;
        let [w12, w13, w14, w15] = $last_row;
        [
            $word(c0),
            $word(c1),
            $word(c2),
            $word(c3),
            $word(k0),
            $word(k1),
            $word(k2),
            $word(k3),
            $word(k4),
            $word(k5),
            $word(k6),
            $word(k7),
            w12,
            w13,
            w14,
            w15,
        ]
    }};
}

pub(super) use initial_state;
