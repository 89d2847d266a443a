//! ORC's run-length encodings, of both versions.

/// So many bits, the highest of each byte first.
pub(super) fn bits(data: &[u8], count: usize) -> Option<Vec<bool>> {
    let bytes = bytes(data, count.div_ceil(8))?;
    Some((0..count).map(|at| bytes[at / 8] >> (7 - at % 8) & 1 == 1).collect())
}

/// So many bytes.
pub(super) fn bytes(mut data: &[u8], count: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while out.len() < count {
        let header = take(&mut data)?;
        if header < 128 {
            let value = take(&mut data)?;
            out.extend(std::iter::repeat_n(value, usize::from(header) + 3));
        } else {
            let (literal, rest) = data.split_at_checked(256 - usize::from(header))?;
            out.extend(literal);
            data = rest;
        }
    }
    out.truncate(count);
    Some(out)
}

/// So many integers.
pub(super) fn integers(data: &[u8], count: usize, signed: bool, v2: bool) -> Option<Vec<i64>> {
    if v2 { version_2(data, count, signed) } else { version_1(data, count, signed) }
}

fn version_1(mut data: &[u8], count: usize, signed: bool) -> Option<Vec<i64>> {
    let mut out: Vec<i64> = Vec::new();
    while out.len() < count {
        let header = take(&mut data)?;
        if header < 128 {
            let delta = i64::from(take(&mut data)?.cast_signed());
            let mut value = number(&mut data, signed)?;
            for _ in 0..usize::from(header) + 3 {
                out.push(value);
                value = value.wrapping_add(delta);
            }
        } else {
            for _ in 0..256 - usize::from(header) {
                out.push(number(&mut data, signed)?);
            }
        }
    }
    out.truncate(count);
    Some(out)
}

fn version_2(mut data: &[u8], count: usize, signed: bool) -> Option<Vec<i64>> {
    let mut out: Vec<i64> = Vec::new();
    let sign = |value: u64| if signed { unzigzag(value) } else { value.cast_signed() };
    while out.len() < count {
        let first = take(&mut data)?;
        if first >> 6 == 0 {
            // Short repeat.
            let width = usize::from(first >> 3 & 7) + 1;
            let value = big_endian(&mut data, width)?;
            out.extend(std::iter::repeat_n(sign(value), usize::from(first & 7) + 3));
            continue;
        }
        let code = first >> 1 & 31;
        let length = (usize::from(first & 1) << 8 | usize::from(take(&mut data)?)) + 1;
        match first >> 6 {
            1 => out.extend(packed(&mut data, width(code), length)?.into_iter().map(sign)),
            2 => patched(&mut data, width(code), length, &mut out)?,
            _ => {
                let base = number(&mut data, signed)?;
                let delta = number(&mut data, true)?;
                out.push(base);
                let mut value = base;
                if length > 1 {
                    value = value.wrapping_add(delta);
                    out.push(value);
                }
                // Without a width every delta is the first.
                let deltas = if code == 0 {
                    vec![delta.unsigned_abs(); length.saturating_sub(2)]
                } else {
                    packed(&mut data, width(code), length.saturating_sub(2))?
                };
                for step in deltas {
                    let step = step.cast_signed();
                    value = if delta < 0 { value.wrapping_sub(step) } else { value.wrapping_add(step) };
                    out.push(value);
                }
            }
        }
    }
    out.truncate(count);
    Some(out)
}

/// Patched base: small numbers over a base, a few of them with bits of their own on top.
fn patched(data: &mut &[u8], bits: usize, length: usize, out: &mut Vec<i64>) -> Option<()> {
    let (third, fourth) = (take(data)?, take(data)?);
    let base_width = usize::from(third >> 5) + 1;
    let patch_width = width(third & 31);
    let gap_width = usize::from(fourth >> 5) + 1;
    let patches = usize::from(fourth & 31);
    let base = big_endian(data, base_width)?;
    let top = 1_u64 << (base_width * 8 - 1);
    // Not two's complement: the highest bit alone is the sign.
    let base = if base & top == 0 { base.cast_signed() } else { -(base & !top).cast_signed() };
    let mut values = packed(data, bits, length)?;
    let entries = packed(data, closest(gap_width + patch_width), patches)?;
    let mut at = 0;
    for entry in entries {
        let patch = entry & mask(patch_width);
        at += usize::try_from(entry >> patch_width).ok()?;
        if patch != 0 {
            *values.get_mut(at)? |= patch.checked_shl(u32::try_from(bits).ok()?).unwrap_or(0);
        }
    }
    out.extend(values.into_iter().map(|value| base.wrapping_add(value.cast_signed())));
    Some(())
}

/// The number of bits that a code of five stands for.
fn width(code: u8) -> usize {
    match code {
        0..=23 => usize::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// The least of the widths that holds so many bits.
fn closest(bits: usize) -> usize {
    (0..32).map(width).find(|width| *width >= bits).unwrap_or(64)
}

fn mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// So many numbers of so many bits, the highest bit first; the last byte is filled up.
fn packed(data: &mut &[u8], bits: usize, count: usize) -> Option<Vec<u64>> {
    let (body, rest) = data.split_at_checked((bits * count).div_ceil(8))?;
    *data = rest;
    let number = |place: usize| {
        (place * bits..(place + 1) * bits)
            .fold(0_u64, |number, bit| number << 1 | u64::from(body[bit / 8] >> (7 - bit % 8) & 1))
    };
    Some((0..count).map(number).collect())
}

fn big_endian(data: &mut &[u8], width: usize) -> Option<u64> {
    (0..width).try_fold(0, |number: u64, _| Some(number << 8 | u64::from(take(data)?)))
}

fn number(data: &mut &[u8], signed: bool) -> Option<i64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(data)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(if signed { unzigzag(number) } else { number.cast_signed() });
        }
    }
    None
}

/// A number of up to 128 bits.
pub(super) fn zigzag128(data: &mut &[u8]) -> Option<i128> {
    let mut number = 0_u128;
    for shift in (0..128).step_by(7) {
        let byte = take(data)?;
        number |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    None
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn take(data: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = data.split_first()?;
    *data = rest;
    Some(*byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification.
    #[test]
    fn the_specifications_runs_are_read() {
        assert_eq!(integers(&[0x61, 0x00, 0x07], 100, false, false), Some(vec![7; 100]));
        assert_eq!(integers(&[0x61, 0xff, 0x64], 100, false, false), Some((1..=100).rev().collect()));
        assert_eq!(integers(&[0xfb, 2, 3, 6, 7, 0xb], 5, false, false), Some(vec![2, 3, 6, 7, 11]));
        assert_eq!(integers(&[0x0a, 0x27, 0x10], 5, false, true), Some(vec![10_000; 5]));
        let direct = [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef];
        assert_eq!(integers(&direct, 4, false, true), Some(vec![23_713, 43_806, 57_005, 48_879]));
        let delta = [0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46];
        assert_eq!(integers(&delta, 10, false, true), Some(vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29]));
        let patched = [
            0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a, 0x64, 0x6e,
            0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
        ];
        let expected = vec![
            2030, 2000, 2020, 1_000_000, 2040, 2050, 2060, 2070, 2080, 2090, 2100, 2110, 2120, 2130, 2140, 2150, 2160,
            2170, 2180, 2190,
        ];
        assert_eq!(integers(&patched, 20, false, true), Some(expected));
        assert_eq!(bytes(&[0x61, 0x00], 100), Some(vec![0; 100]));
        assert_eq!(bits(&[0xff, 0x80], 3), Some(vec![true, false, false]));
    }
}
