//! How functions of few instructions are written down.

/// Defines functions of one or few instructions, compiled with target features.
macro_rules! instructions {
    ($features:literal: $(
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:expr;
    )*) => {$(
        $(#[$attribute])*
        // Those without pointers have nothing unsafe in them.
        #[allow(unused_unsafe)]
        #[inline]
        #[target_feature(enable = $features)]
        $visibility unsafe fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller vouches for pointers.
            unsafe { $body }
        }
    )*};
}
pub(crate) use instructions;
