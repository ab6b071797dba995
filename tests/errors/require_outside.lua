require "../secret"
