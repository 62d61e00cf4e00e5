"""PaddlePaddle 3's graph JSON (PIR): its two files, and the format's knowledge about its graphs."""
