//! Keys whose whole memory is zeros once they are dropped.
//!
//! A key is an enum of the libraries' keys. Moving it copies what lies between and behind their fields as well: octets that were on the
//! stack, maybe of this very key while it was made. No library can wipe those, and ring wipes nothing. So each enum has a variant of zeros
//! that is as large as the enum, and takes the place of the key when it is dropped.

use core::alloc::Layout;

/// The octets of an enum next to its tag of one octet. `variants` are the layouts of its variants, each with a tag.
pub(crate) const fn octets_but_tag(variants: &[Layout]) -> usize {
    let (mut size, mut align, mut at) = (1, 1, 0);
    while at < variants.len() {
        let variant = variants[at];
        if variant.size() > size {
            size = variant.size();
        }
        if variant.align() > align {
            align = variant.align();
        }
        at += 1;
    }
    size.next_multiple_of(align) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tagged<T> = (u8, T);

    /// Compares with enums that the compiler lays out.
    #[test]
    fn the_size_matches_the_compilers_enum_layout() {
        let table = [
            (&[][..], 0),
            (&[Layout::new::<Tagged<u8>>()], 1),
            (&[Layout::new::<Tagged<u64>>()], 15),
            (&[Layout::new::<Tagged<u64>>(), Layout::new::<Tagged<[u8; 8]>>()], 15),
            // The larger variant has 23 octets; the other's alignment rounds that up to 24.
            (&[Layout::new::<Tagged<u64>>(), Layout::new::<Tagged<[u8; 22]>>()], 23),
            (&[Layout::new::<Tagged<[u8; 22]>>(), Layout::new::<Tagged<u64>>()], 23),
            (&[Layout::new::<Tagged<[u8; 22]>>(), Layout::new::<Tagged<u16>>()], 23),
            (&[Layout::new::<Tagged<[u8; 22]>>()], 22),
        ];
        for (variants, octets) in table {
            assert_eq!(octets_but_tag(variants), octets, "{variants:?}");
        }
    }
}
