"""What rapidocr makes of images, and what OpenCV makes of their parts.

    python -m venv v && v/bin/pip install --no-deps rapidocr-onnxruntime==1.4.4
    v/bin/pip install numpy==2.4.6 onnxruntime==1.31.1 opencv-python-headless==5.0.0.93 pyclipper==1.4.0 shapely==2.2.0 \
        pyyaml==6.0.3 pillow==13.0.0 matplotlib==3.11.2 six tqdm
    v/bin/python golden.py          writes the images and golden.json beside this file

The font is that of matplotlib. Boxes and texts are those of rapidocr. "resized" is the sha256 of what OpenCV makes of the
image in two other sizes, "cropped" each seventeenth byte of the boxes that it cuts out.
"""
import base64
import hashlib
import json
import os

import cv2
import matplotlib
import rapidocr_onnxruntime
from PIL import Image, ImageDraw, ImageFont

HERE = os.path.dirname(os.path.abspath(__file__))
FONT = os.path.join(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")


def page(w, h, texts, background=255):
    image = Image.new("L", (w, h), background)
    draw = ImageDraw.Draw(image)
    for x, y, size, text in texts:
        draw.text((x, y), text, font=ImageFont.truetype(FONT, size), fill=255 - background)
    return image


def images():
    error = page(520, 260, [(24, 16, 22, "Checkout"), (300, 18, 18, "Order 10293"), (24, 80, 26, "Payment failed"), (24, 124, 17, "Your card was declined (code 51)."),
                            (24, 150, 17, "Try another card, or call 555-0134."), (40, 208, 20, "Retry"), (180, 208, 20, "Cancel")])
    yield "error.png", error
    yield "dark.png", page(300, 90, [(16, 12, 20, "Connection lost"), (16, 48, 16, "waiting for network...")], background=0)
    yield "tilted.png", page(420, 200, [(60, 60, 24, "Parcel arrived broken"), (60, 110, 20, "refund please")]).rotate(7, Image.Resampling.BICUBIC, fillcolor=255)
    yield "head.png", page(330, 80, [(16, 22, 26, "Delivery address")]).rotate(180)
    yield "strip.png", page(560, 28, [(8, 3, 18, "one line in a strip that is wide and low")])
    yield "steep.png", page(330, 60, [(14, 12, 26, "Turned to the side")]).rotate(90, expand=True)
    yield "empty.png", page(64, 64, [])
    yield "photo.jpg", error.resize((416, 208), Image.Resampling.BICUBIC).convert("RGB")


def main():
    reader = rapidocr_onnxruntime.RapidOCR()
    crops, cut = [], reader.get_crop_img_list
    golden = {"opencv": cv2.__version__, "images": {}}

    def keep(image, boxes):
        crops[:] = cut(image, boxes)
        return list(crops)

    reader.get_crop_img_list = keep
    for name, image in images():
        path = os.path.join(HERE, name)
        if name.endswith(".jpg"):
            image.save(path, quality=40)
        else:
            image.point(lambda v: round(v / 51) * 51).save(path, optimize=True)  # few greys are few bytes
        crops.clear()
        result, _ = reader(path)
        loaded = reader.load_img(path)
        h, w = loaded.shape[:2]
        resized = cv2.resize(loaded, (w * 5 // 3, h * 7 // 5))
        small = cv2.resize(loaded, (w * 3 // 5, h * 2 // 7))
        golden["images"][name] = {
            "boxes": [[[int(x) for x in point] for point in box] for box, *_ in result or []],
            "lines": [text for _, text, _ in result or []],
            "sure": [round(float(score), 6) for *_, score in result or []],
            "resized": [hashlib.sha256(each.tobytes()).hexdigest() for each in (resized, small)],
            "cropped": [base64.b64encode(each[:, :, 0].reshape(-1)[::17].tobytes()).decode() for each in crops],
            "sizes": [[each.shape[1], each.shape[0]] for each in crops],
        }
    with open(os.path.join(HERE, "golden.json"), "w", encoding="utf-8") as out:
        json.dump(golden, out)
        out.write("\n")


if __name__ == "__main__":
    main()
