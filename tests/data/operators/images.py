"""Golden cases of operators on images; those that draw numbers draw them from intervals of one number."""

from __future__ import annotations

from typing import Any

from golden_case import Case, case, r


def photo(*shape: int, dtype: str = "uint8") -> Any:
    return r(*shape, low=0, high=255, dtype=dtype)


# Flips have even extents and a colour jitter is not among the cases: MXNet leaves the middle of an odd row, and the
# result of a jitter by nothing, as they stand in memory. The hue of whole numbers hangs on the last
# digit before they are cut off.


def cases() -> list[Case]:
    found = [
        case("_image_to_tensor", photo(4, 5, 3)),
        case("_image_to_tensor", photo(2, 4, 5, 3)),
        case("_image_to_tensor", photo(4, 5, 1, dtype="float32")),
        case("_image_normalize", r(3, 4, 5), mean="(0.1, 0.2, 0.3)", std="(0.5, 2, 1)"),
        case("_image_normalize", r(2, 3, 4, 5), mean="(0.1, 0.2, 0.3)", std="(0.5, 2, 1)"),
        case("_image_normalize", r(3, 4, 5), mean="0.5", std="0.25"),
        case("_image_normalize", r(1, 4, 5), mean="0.5", std="0.25"),
        case("_image_crop", photo(6, 7, 3), x=1, y=2, width=4, height=3),
        case("_image_crop", photo(2, 6, 7, 3), x=0, y=0, width=7, height=6),
        case("_image_crop", r(6, 7, 1), x=6, y=5, width=1, height=1),
        case("_image_flip_left_right", photo(4, 6, 3)),
        case("_image_flip_top_bottom", photo(4, 6, 3)),
        case("_image_flip_left_right", r(4, 6, 1)),
        case("_image_flip_top_bottom", r(4, 6, 1)),
    ]
    for size in ("(3, 4)", "(9, 11)", "6", "(13, 2)"):
        found.append(case("_image_resize", photo(8, 6, 3), size=size))
        found.append(case("_image_resize", photo(8, 6, 3), size=size, interp=0))
        for interp in (1, 2, 3, 4):
            found.append(case("_image_resize", r(8, 6, 3), size=size, interp=interp))
    for size in ("(3, 4)", "(6, 8)", "(3, 8)", "(11, 9)", "(2, 19)", "(40, 3)"):
        found += [case("_image_resize", photo(16, 12, 3), size=size, interp=interp) for interp in (2, 3, 4)]
        found.append(case("_image_resize", photo(9, 14, 1), size=size, interp=2))
    found += [
        case("_image_resize", photo(9, 6, 3), size="4", keep_ratio="True"),
        case("_image_resize", photo(6, 9, 3), size="4", keep_ratio="True"),
        case("_image_resize", photo(2, 6, 9, 1), size="(4, 5)"),
        case("_image_resize", photo(6, 9, 3), size="(4, 5)", keep_ratio="True"),
    ]
    for image in (photo(4, 5, 3), r(4, 5, 3, low=0, high=255)):
        for factor in (0.5, 1.25):
            same = {"min_factor": factor, "max_factor": factor}
            found += [case(f"_image_random_{k}", image, **same) for k in ("brightness", "contrast", "saturation")]
        for turn in (0.1, 0.6) if image.dtype == "float32" else ():
            found.append(case("_image_random_hue", image, min_factor=turn, max_factor=turn))
        found.append(case("_image_adjust_lighting", image, alpha="(0.5, -0.3, 0.2)"))
        found.append(case("_image_random_lighting", image, alpha_std=0))
    found.append(case("_image_random_contrast", photo(4, 5, 1), min_factor=0.5, max_factor=0.5))
    found.append(case("_image_random_saturation", photo(4, 5, 1), min_factor=0.5, max_factor=0.5))
    return found
