"""Reports of findings in the formats that people and CI systems read. Plain data in, text out; nothing here prints."""
