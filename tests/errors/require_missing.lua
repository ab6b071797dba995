require "nothing_here"
